; A call that comes behind recorded ones as it did before: what `PendingCalls.record_again` does.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Recording, its arguments
; are the pending calls, the list of inputs, and a plan.  Where anything is not as in most calls nothing
; was done yet but to number inputs, and the Python that does the same is called.
;
; Python takes the lock of the calls.  Here they are looked at, and added to, by one who holds Python's
; lock and calls no Python meanwhile: all objects that a collection of garbage may come with are made
; before, or are followed by one more look at who runs the calls.
;
; Functions of objects stand in `objects.ll`, those of results in `recorded_results.ll`, of
; passages in `passage.ll`.

%Recording = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ptr, ; 20 PyTuple_GetItem
  ptr, ; 21 PyDict_SetItem
  ptr, ; 22 PyLong_FromLongLong
  ptr, ; 23 PyLong_FromVoidPtr
  ptr, ; 24 Py_NewRef
  ptr, ; 25 PyList_AsTuple
  ; Objects.
  ptr, ; 26 None
  ptr, ; 27 False
  ptr, ; 28 list
  ptr, ; 29 the class of lazy handles
  ptr, ; 30 the class of numbers
  ptr, ; 31 the class of handles of an application's memory
  ptr, ; 32 the dtype of bools
  ptr, ; 33 a list that is empty unless somebody listens
  ptr, ; 34 the Python that does the same
  ; Bytes from the beginning of an object to its slots.
  i64, ; 35 any object: its class
  i64, ; 36 a lazy handle: type
  i64, ; 37 place
  i64, ; 38 value
  i64, ; 39 a number: type
  i64, ; 40 a type: dtype
  i64, ; 41 pending calls: at
  i64, ; 42 is_done
  i64, ; 43 is_running
  i64, ; 44 places
  i64, ; 45 inputs
  i64, ; 46 numbers
  i64, ; 47 results
  i64, ; 48 a call of the tree: next
  i64, ; 49 is_checked
  i64, ; 50 early
  i64, ; 51 type
  i64, ; 52 results
  i64  ; 53 types
}

; Objects of the results of a call: lazy handles, and places.
%Made = type { [16 x ptr], [16 x ptr] }

; Whether calls may be added to: they did not run, and nobody runs them now.
define internal i1 @is_open(ptr %c, ptr %calls) {
  %no = call ptr @field(ptr %c, i64 27)
  %done = call ptr @slot(ptr %c, i32 42, ptr %calls)
  %running = call ptr @slot(ptr %c, i32 43, ptr %calls)
  %not.done = icmp eq ptr %done, %no
  %not.running = icmp eq ptr %running, %no
  %is.open = and i1 %not.done, %not.running
  ret i1 %is.open
}

; Owned: the number of a tensor from elsewhere, now one of the inputs; null with an error.
define internal ptr @number(ptr %c, ptr %calls, ptr %x) {
entry:
  %id.of = call ptr @field(ptr %c, i64 23)
  %id = call ptr %id.of(ptr %x)
  %no.id = icmp eq ptr %id, null
  br i1 %no.id, label %failed, label %find
find:
  %get = call ptr @field(ptr %c, i64 8)
  %places = call ptr @slot(ptr %c, i32 44, ptr %calls)
  %known = call ptr %get(ptr %places, ptr %id)
  %is.new = icmp eq ptr %known, null
  br i1 %is.new, label %add, label %found
found:
  call void @hold(ptr %c, ptr %known)
  br label %done
add:
  %inputs = call ptr @slot(ptr %c, i32 45, ptr %calls)
  %append = call ptr @field(ptr %c, i64 16)
  %not.added = call i32 %append(ptr %inputs, ptr %x)
  %count = call i64 @size_of(ptr %c, ptr %inputs)
  %of = sub i64 0, %count
  %integer = call ptr @field(ptr %c, i64 22)
  %made = call ptr %integer(i64 %of)
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %done, label %put
put:
  %set = call ptr @field(ptr %c, i64 21)
  %not.set = call i32 %set(ptr %places, ptr %id, ptr %made)
  br label %done
done:
  %number = phi ptr [ %known, %found ], [ %made, %put ], [ null, %add ]
  call void @drop(ptr %c, ptr %id)
  ret ptr %number
failed:
  ret ptr null
}

; Owned: by what an input is known: a number of a result or of an input.  Null, and maybe an error,
; where Python has to look at it.
define internal ptr @part(ptr %c, ptr %calls, ptr %x) {
entry:
  %none = call ptr @field(ptr %c, i64 26)
  %lazy = call ptr @field(ptr %c, i64 29)
  %external = call ptr @field(ptr %c, i64 31)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.external = icmp eq ptr %class, %external
  br i1 %is.external, label %unknown, label %ask
ask:
  %is.lazy = icmp eq ptr %class, %lazy
  br i1 %is.lazy, label %look, label %computed
look:
  %item = call ptr @field(ptr %c, i64 20)
  %place = call ptr @slot(ptr %c, i32 37, ptr %x)
  %maker = call ptr %item(ptr %place, i64 0)
  %is.own = icmp eq ptr %maker, %calls
  br i1 %is.own, label %own, label %other
own:
  %result = call ptr %item(ptr %place, i64 1)
  call void @hold(ptr %c, ptr %result)
  ret ptr %result
other:
  %value = call ptr @slot(ptr %c, i32 38, ptr %x)
  %is.pending = icmp eq ptr %value, %none
  br i1 %is.pending, label %unknown, label %computed
computed:
  %handle = phi ptr [ %x, %ask ], [ %value, %other ]
  %number = call ptr @number(ptr %c, ptr %calls, ptr %handle)
  ret ptr %number
unknown:
  ret ptr null
}

; Put what the inputs are known by behind the plan; return how many parts there are, or -1 where Python
; has to look.  Numbers among the inputs are put down in order, behind their count.
define internal i64 @parts(ptr %c, ptr %calls, ptr %inputs, ptr %parts, ptr %numbers) {
entry:
  %none = call ptr @field(ptr %c, i64 26)
  %number.class = call ptr @field(ptr %c, i64 30)
  %bools = call ptr @field(ptr %c, i64 32)
  %count = call i64 @size_of(ptr %c, ptr %inputs)
  store i64 0, ptr %numbers, align 8
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %go.on ]
  %made = phi i64 [ 1, %entry ], [ %more, %go.on ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %x = call ptr @item(ptr %c, ptr %inputs, i64 %n)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.none = icmp eq ptr %x, %none
  br i1 %is.none, label %go.on, label %ask
ask:
  %is.number = icmp eq ptr %class, %number.class
  br i1 %is.number, label %number, label %tensor
number:
  %type = call ptr @slot(ptr %c, i32 39, ptr %x)
  %dtype = call ptr @slot(ptr %c, i32 40, ptr %type)
  %is.bool = icmp eq ptr %dtype, %bools
  br i1 %is.bool, label %unknown, label %note
note:
  %before = load i64, ptr %numbers, align 8
  %now = add i64 %before, 1
  store i64 %now, ptr %numbers, align 8
  %number.at = getelementptr ptr, ptr %numbers, i64 %now
  store ptr %x, ptr %number.at, align 8
  br label %go.on
tensor:
  %part = call ptr @part(ptr %c, ptr %calls, ptr %x)
  %no.part = icmp eq ptr %part, null
  br i1 %no.part, label %unknown, label %put
put:
  %part.at = getelementptr ptr, ptr %parts, i64 %made
  store ptr %part, ptr %part.at, align 8
  %one.more = add i64 %made, 1
  br label %go.on
go.on:
  %more = phi i64 [ %made, %look ], [ %made, %note ], [ %one.more, %put ]
  %after = add i64 %n, 1
  br label %next
done:
  ret i64 %made
unknown:
  call void @drop_all(ptr %c, ptr %parts, i64 1, i64 %made)
  ret i64 -1
}

; Owned: the call of the tree that came behind these before, on the same inputs; null, and maybe an
; error, where there is none, and where there is more to do than most calls want.
define internal ptr @known(ptr %c, ptr %at, ptr %parts, i64 %count) {
entry:
  %no = call ptr @field(ptr %c, i64 27)
  %none = call ptr @field(ptr %c, i64 26)
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %get = call ptr @field(ptr %c, i64 8)
  %key = call ptr %new(i64 %count)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %lost, label %next
lost:
  call void @drop_all(ptr %c, ptr %parts, i64 0, i64 %count)
  br label %unknown
next:
  %n = phi i64 [ 0, %entry ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %find
one:
  %part.at = getelementptr ptr, ptr %parts, i64 %n
  %part = load ptr, ptr %part.at, align 8
  %was.set = call i32 %set(ptr %key, i64 %n, ptr %part)
  %after = add i64 %n, 1
  br label %next
find:
  %calls = call ptr @slot(ptr %c, i32 48, ptr %at)
  %found = call ptr %get(ptr %calls, ptr %key)
  %missing = icmp eq ptr %found, null
  %is.alone = icmp eq ptr %found, %none
  %is.not = or i1 %missing, %is.alone
  br i1 %is.not, label %drop.key, label %look
look:
  call void @hold(ptr %c, ptr %found)
  %checked = call ptr @slot(ptr %c, i32 49, ptr %found)
  %early = call ptr @slot(ptr %c, i32 50, ptr %found)
  %is.free = icmp eq ptr %checked, %no
  %is.late = icmp eq ptr %early, %none
  %is.usual = and i1 %is.free, %is.late
  br i1 %is.usual, label %done, label %refuse
refuse:
  call void @drop(ptr %c, ptr %found)
  br label %drop.key
drop.key:
  call void @drop(ptr %c, ptr %key)
  br label %unknown
done:
  call void @drop(ptr %c, ptr %key)
  ret ptr %found
unknown:
  ret ptr null
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  %parts = alloca [9 x ptr], align 8
  %numbers = alloca [9 x ptr], align 8
  %objects = alloca %Made, align 8
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %none = call ptr @field(ptr %c, i64 26)
  %lists = call ptr @field(ptr %c, i64 28)
  %listeners = call ptr @field(ptr %c, i64 33)
  %calls = load ptr, ptr %arguments, align 8
  %inputs.at = getelementptr ptr, ptr %arguments, i64 1
  %inputs = load ptr, ptr %inputs.at, align 8
  %plan.at = getelementptr ptr, ptr %arguments, i64 2
  %plan = load ptr, ptr %plan.at, align 8
  %class = call ptr @class_of(ptr %c, ptr %inputs)
  %is.list = icmp eq ptr %class, %lists
  br i1 %is.list, label %count.them, label %slowly
count.them:
  %given.count = call i64 @size_of(ptr %c, ptr %inputs)
  %listening = call i64 @size_of(ptr %c, ptr %listeners)
  %are.few = icmp sle i64 %given.count, 8
  %is.quiet = icmp eq i64 %listening, 0
  %may.go = and i1 %are.few, %is.quiet
  br i1 %may.go, label %make, label %slowly
make:
  ; Of the first result, before anything is looked at; mostly it is the only one.
  %is.made = call i1 @one_made(ptr %c, ptr %objects, i64 0)
  br i1 %is.made, label %ask, label %slowly.after
ask:
  %at = call ptr @slot(ptr %c, i32 41, ptr %calls)
  %is.open = call i1 @is_open(ptr %c, ptr %calls)
  br i1 %is.open, label %look, label %undo
look:
  call void @hold(ptr %c, ptr %at)
  store ptr %plan, ptr %parts, align 8
  %count = call i64 @parts(ptr %c, ptr %calls, ptr %inputs, ptr %parts, ptr %numbers)
  %is.unknown = icmp slt i64 %count, 0
  br i1 %is.unknown, label %undo.at, label %find
find:
  call void @hold(ptr %c, ptr %plan)
  %call = call ptr @known(ptr %c, ptr %at, ptr %parts, i64 %count)
  %is.new = icmp eq ptr %call, null
  br i1 %is.new, label %undo.at, label %add
add:
  %type = call ptr @slot(ptr %c, i32 51, ptr %call)
  %has.several = icmp eq ptr %type, %none
  br i1 %has.several, label %add.several, label %add.one
add.one:
  %one.added = call ptr @single(ptr %c, ptr %calls, ptr %at, ptr %call, ptr %numbers, ptr %objects)
  br label %added
add.several:
  %all.added = call ptr @several(ptr %c, ptr %calls, ptr %at, ptr %call, ptr %numbers, ptr %objects)
  br label %added
added:
  %out = phi ptr [ %one.added, %add.one ], [ %all.added, %add.several ]
  call void @drop(ptr %c, ptr %call)
  %is.left = icmp eq ptr %out, %none
  br i1 %is.left, label %undo.at, label %done
done:
  call void @drop(ptr %c, ptr %at)
  ret ptr %out
undo.at:
  call void @drop(ptr %c, ptr %at)
  br label %undo
undo:
  call void @drop_made(ptr %c, ptr %objects, i64 0, i64 1)
  br label %slowly.after
slowly.after:
  call void @forget_error(ptr %c)
  br label %slowly
slowly:
  %slow = call ptr @field(ptr %c, i64 34)
  %by.python = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %by.python
}
