; A call that comes behind recorded ones as it did before: what `PendingCalls.record_again` does.  And by
; what a passage of calls is known.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Recording, its arguments
; are the pending calls, the list of inputs, and a plan.  Where anything is not as in most calls nothing
; was done yet but to number inputs, and the Python that does the same is called.
;
; Python takes the lock of the calls.  Here they are looked at, and added to, by one who holds Python's
; lock and calls no Python meanwhile: all objects that a collection of garbage may come with are made
; before, or are followed by one more look at who runs the calls.
;
; Functions of objects stand in `objects.ll`, those of results in `recorded_results.ll`.

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

; Objects of the results of a call: lazy handles, weak references to them, and places.
%Made = type { [16 x ptr], [16 x ptr], [16 x ptr] }

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

; Make objects of one result: put down a lazy handle, a weak reference to it, and a place; false, and
; Fill the objects of one result, the given number among all of its calls, and give them away: the
; Owned: numbers of the results of a call behind the first, put down; false, and maybe an error, where
; Owned: the tuple of the results of a call of several, which is added behind the last one.  Null with an
; Owned: the list of what some operands are known by behind the head of a passage; null, and maybe an
; error, where Python has to look.
define internal ptr @key_parts(ptr %c, ptr %calls, ptr %head, ptr %operands) {
entry:
  %none = call ptr @field(ptr %c, i64 26)
  %number.class = call ptr @field(ptr %c, i64 30)
  %bools = call ptr @field(ptr %c, i64 32)
  %new = call ptr @field(ptr %c, i64 10)
  %append = call ptr @field(ptr %c, i64 16)
  %count = call i64 @size_of(ptr %c, ptr %operands)
  %parts = call ptr %new(i64 0)
  %no.parts = icmp eq ptr %parts, null
  br i1 %no.parts, label %failed, label %first
first:
  %not.first = call i32 %append(ptr %parts, ptr %head)
  br label %next
next:
  %n = phi i64 [ 0, %first ], [ %after, %go.on ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %x = call ptr @item(ptr %c, ptr %operands, i64 %n)
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
  br i1 %is.bool, label %undo, label %go.on
tensor:
  %part = call ptr @part(ptr %c, ptr %calls, ptr %x)
  %no.part = icmp eq ptr %part, null
  br i1 %no.part, label %undo, label %add
add:
  %not.added = call i32 %append(ptr %parts, ptr %part)
  call void @drop(ptr %c, ptr %part)
  %is.lost = icmp ne i32 %not.added, 0
  br i1 %is.lost, label %undo, label %go.on
go.on:
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %parts
undo:
  call void @drop(ptr %c, ptr %parts)
  br label %failed
failed:
  ret ptr null
}

; A function of CPython's too: what `key_of` of `pyrite.backend.fusion.passage` does, for pending calls
; whose lock is held, a head, and a list of operands.
define ptr @key(ptr %self, ptr %arguments, i64 %given) {
entry:
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %lists = call ptr @field(ptr %c, i64 28)
  %calls = load ptr, ptr %arguments, align 8
  %head.at = getelementptr ptr, ptr %arguments, i64 1
  %head = load ptr, ptr %head.at, align 8
  %operands.at = getelementptr ptr, ptr %arguments, i64 2
  %operands = load ptr, ptr %operands.at, align 8
  %class = call ptr @class_of(ptr %c, ptr %operands)
  %is.list = icmp eq ptr %class, %lists
  br i1 %is.list, label %look, label %slowly
look:
  %parts = call ptr @key_parts(ptr %c, ptr %calls, ptr %head, ptr %operands)
  %no.parts = icmp eq ptr %parts, null
  br i1 %no.parts, label %forget, label %made
made:
  %to.tuple = call ptr @field(ptr %c, i64 25)
  %key = call ptr %to.tuple(ptr %parts)
  call void @drop(ptr %c, ptr %parts)
  ret ptr %key
forget:
  call void @forget_error(ptr %c)
  br label %slowly
slowly:
  %slow = call ptr @field(ptr %c, i64 34)
  %by.python = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %by.python
}
