; The way of a call from an op's method to its backend: what `call` of `pyrite.op.binding` does, for
; calls that were planned before.  Behind it stand `rows.ll`, `sorting.ll` and `subscript.ll`, which have its table.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Binding, its arguments
; are an op, the tuple of its inputs, its attributes, and their form.  The inputs are tensors of one
; backend, Python numbers and None.  Where anything else is so as in few calls, nothing was done yet,
; and the Python that does the same is called.
;
; Functions of objects stand in `objects.ll`.

%Binding = type {
  ; Functions of the C API: 20 as in `call.ll`, and more.
  [20 x ptr],
  ptr, ; 20 PySequence_GetItem
  ptr, ; 21 PyTuple_GetItem
  ptr, ; 22 PyTuple_GetSlice
  ptr, ; 23 PyDict_Next
  ptr, ; 24 PySequence_Concat
  ptr, ; 25 PyLong_FromLongLong
  ; Objects.
  ptr, ; 26 None
  ptr, ; 27 tuple
  ptr, ; 28 float
  ptr, ; 29 int
  ptr, ; 30 the class of tensors
  ptr, ; 31 and two of which ops make such
  ptr, ; 32
  ptr, ; 33 the class of None
  ptr, ; 34 the class of numbers
  ptr, ; 35 a list that is empty unless a block forbids something
  ptr, ; 36 the name of a backend's `execute`
  ptr, ; 37 `call`
  ptr, ; 38 what makes the result by the body of an op
  ptr, ; 39 bool
  ptr, ; 40 str
  ptr, ; 41 the class of dtypes
  ptr, ; 42 `call_as_given`
  ptr, ; 43 slice
  ptr, ; 44 dots
  ptr, ; 45 `call_known`
  ; Bytes from the beginning of an object to its slots.
  i64, ; 46 any object: its class
  i64, ; 47 a tensor: handle
  i64, ; 48 type
  i64, ; 49 backend
  i64, ; 50 a type: key
  i64, ; 51 an op: plans
  i64, ; 52 a plan: result
  i64, ; 53 takes
  i64, ; 54 numbers
  i64, ; 55 a number: value
  i64, ; 56 type
  i64, ; 57 known arguments: op
  i64, ; 58 arity
  i64, ; 59 known
  i64, ; 60 of_type
  i64, ; 61 a plan: results
  i64, ; 62 a type: shape
  i64, ; 63 known calls: known
  i64, ; 64 a slice: start
  i64, ; 65 stop
  i64  ; 66 step
}

define internal i1 @is_tensor(ptr %c, ptr %class) {
  %tensors = call ptr @field(ptr %c, i64 30)
  %parameters = call ptr @field(ptr %c, i64 31)
  %states = call ptr @field(ptr %c, i64 32)
  %is.plain = icmp eq ptr %class, %tensors
  %is.parameter = icmp eq ptr %class, %parameters
  %is.state = icmp eq ptr %class, %states
  %is.held = or i1 %is.parameter, %is.state
  %is.tensor = or i1 %is.plain, %is.held
  ret i1 %is.tensor
}

; Put down what a plan depends on of each input, the number of its type or its class; return the backend
; of all, or null where there is none, and for inputs of another kind.
define internal ptr @kinds(ptr %c, ptr %inputs, i64 %count, ptr %kinds) {
entry:
  %item = call ptr @field(ptr %c, i64 21)
  %floats = call ptr @field(ptr %c, i64 28)
  %integers = call ptr @field(ptr %c, i64 29)
  %nones = call ptr @field(ptr %c, i64 33)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %backend = phi ptr [ null, %entry ], [ %now, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %x = call ptr %item(ptr %inputs, i64 %n)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.tensor = call i1 @is_tensor(ptr %c, ptr %class)
  br i1 %is.tensor, label %tensor, label %other
tensor:
  %its = call ptr @slot(ptr %c, i32 49, ptr %x)
  %type = call ptr @slot(ptr %c, i32 48, ptr %x)
  %is.first = icmp eq ptr %backend, null
  %is.here = icmp eq ptr %its, %backend
  %is.fine = or i1 %is.first, %is.here
  br i1 %is.fine, label %typed, label %unknown
typed:
  %number = call ptr @slot(ptr %c, i32 50, ptr %type)
  br label %put
other:
  %is.float = icmp eq ptr %class, %floats
  %is.integer = icmp eq ptr %class, %integers
  %is.none = icmp eq ptr %class, %nones
  %is.number = or i1 %is.float, %is.integer
  %is.known = or i1 %is.number, %is.none
  br i1 %is.known, label %put, label %unknown
put:
  %kind = phi ptr [ %number, %typed ], [ %class, %other ]
  %now = phi ptr [ %its, %typed ], [ %backend, %other ]
  %kind.at = getelementptr ptr, ptr %kinds, i64 %n
  store ptr %kind, ptr %kind.at, align 8
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %backend
unknown:
  ret ptr null
}

; Owned: the key of a plan; null where there is no memory.
define internal ptr @key(ptr %c, ptr %form, ptr %kinds, i64 %count) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %size = add i64 %count, 1
  %key = call ptr %new(i64 %size)
  %none = icmp eq ptr %key, null
  br i1 %none, label %done, label %fill
fill:
  call void @hold(ptr %c, ptr %form)
  %first = call i32 %set(ptr %key, i64 0, ptr %form)
  br label %next
next:
  %n = phi i64 [ 0, %fill ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %kind.at = getelementptr ptr, ptr %kinds, i64 %n
  %kind = load ptr, ptr %kind.at, align 8
  %after = add i64 %n, 1
  call void @hold(ptr %c, ptr %kind)
  %was.set = call i32 %set(ptr %key, i64 %after, ptr %kind)
  br label %next
done:
  ret ptr %key
}

; Owned: what a backend gets of an input: the handle of a tensor, None, or a number with the type that
; the plan has it take.  Null, and no error, where the plan says other than is so in most calls.
define internal ptr @given(ptr %c, ptr %x, ptr %takes, i64 %n) {
entry:
  %none = call ptr @field(ptr %c, i64 26)
  %get = call ptr @field(ptr %c, i64 21)
  %takes.none = icmp eq ptr %takes, %none
  br i1 %takes.none, label %look, label %ask
ask:
  %taken = call ptr %get(ptr %takes, i64 %n)
  br label %look
look:
  %type = phi ptr [ %none, %entry ], [ %taken, %ask ]
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.untyped = icmp eq ptr %type, %none
  %is.tensor = call i1 @is_tensor(ptr %c, ptr %class)
  %is.none = icmp eq ptr %x, %none
  br i1 %is.untyped, label %untyped, label %typed
untyped:
  br i1 %is.tensor, label %lift, label %ask.none
lift:
  %handle = call ptr @slot(ptr %c, i32 47, ptr %x)
  br label %same
ask.none:
  br i1 %is.none, label %same, label %unknown
same:
  %found = phi ptr [ %handle, %lift ], [ %none, %ask.none ]
  call void @hold(ptr %c, ptr %found)
  ret ptr %found
typed:
  %no.type = icmp eq ptr %type, null
  %is.no.number = or i1 %is.tensor, %is.none
  %is.unfit = or i1 %no.type, %is.no.number
  br i1 %is.unfit, label %failed, label %make
make:
  %numbers = call ptr @field(ptr %c, i64 34)
  %made = call ptr @made(ptr %c, ptr %numbers)
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %failed, label %fill
fill:
  call void @put(ptr %c, i32 55, ptr %made, ptr %x)
  call void @put(ptr %c, i32 56, ptr %made, ptr %type)
  ret ptr %made
failed:
  call void @forget_error(ptr %c)
  br label %unknown
unknown:
  ret ptr null
}

; Owned: what a backend gets of all; null, and no error, where that is to be found out.
define internal ptr @handles(ptr %c, ptr %inputs, i64 %count, ptr %takes) {
entry:
  %new = call ptr @field(ptr %c, i64 10)
  %set = call ptr @field(ptr %c, i64 18)
  %item = call ptr @field(ptr %c, i64 21)
  %list = call ptr %new(i64 %count)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %forget, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %x = call ptr %item(ptr %inputs, i64 %n)
  %handle = call ptr @given(ptr %c, ptr %x, ptr %takes, i64 %n)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %undo, label %put
put:
  %was.set = call i32 %set(ptr %list, i64 %n, ptr %handle)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %list
undo:
  call void @drop(ptr %c, ptr %list)
  br label %unknown
forget:
  call void @forget_error(ptr %c)
  br label %unknown
unknown:
  ret ptr null
}

; Owned: the tensor of one of some results.
define internal ptr @wrapped(ptr %c, ptr %results, i64 %n, ptr %type, ptr %backend) {
entry:
  %get = call ptr @field(ptr %c, i64 20)
  %handle = call ptr %get(ptr %results, i64 %n)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %none, label %make
make:
  %tensors = call ptr @field(ptr %c, i64 30)
  %tensor = call ptr @made(ptr %c, ptr %tensors)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %lost, label %fill
fill:
  call void @put(ptr %c, i32 47, ptr %tensor, ptr %handle)
  call void @put(ptr %c, i32 48, ptr %tensor, ptr %type)
  call void @put(ptr %c, i32 49, ptr %tensor, ptr %backend)
  call void @drop(ptr %c, ptr %handle)
  ret ptr %tensor
lost:
  call void @drop(ptr %c, ptr %handle)
  br label %none
none:
  ret ptr null
}

; Owned: the tuple of the tensors of several results of these types.
define internal ptr @all_wrapped(ptr %c, ptr %results, ptr %types, ptr %backend) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %item = call ptr @field(ptr %c, i64 21)
  %count = call i64 @size_of(ptr %c, ptr %types)
  %tensors = call ptr %new(i64 %count)
  %no.tensors = icmp eq ptr %tensors, null
  br i1 %no.tensors, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %type = call ptr %item(ptr %types, i64 %n)
  %tensor = call ptr @wrapped(ptr %c, ptr %results, i64 %n, ptr %type, ptr %backend)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %undo, label %put
put:
  %was.put = call i32 %set(ptr %tensors, i64 %n, ptr %tensor)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %tensors
undo:
  call void @drop(ptr %c, ptr %tensors)
  br label %failed
failed:
  ret ptr null
}

; Owned: what comes of an op, the tuple of its inputs, its attributes and their form; null with an error.
define internal ptr @bound(ptr %c, ptr %arguments) {
entry:
  %passed = alloca [3 x ptr], align 8
  %kinds = alloca [8 x ptr], align 8
  %none = call ptr @field(ptr %c, i64 26)
  %tuples = call ptr @field(ptr %c, i64 27)
  %restrictions = call ptr @field(ptr %c, i64 35)
  %op = load ptr, ptr %arguments, align 8
  %inputs.at = getelementptr ptr, ptr %arguments, i64 1
  %inputs = load ptr, ptr %inputs.at, align 8
  %form.at = getelementptr ptr, ptr %arguments, i64 3
  %form = load ptr, ptr %form.at, align 8
  %forbidding = call i64 @size_of(ptr %c, ptr %restrictions)
  %is.free = icmp eq i64 %forbidding, 0
  %inputs.class = call ptr @class_of(ptr %c, ptr %inputs)
  %is.tuple = icmp eq ptr %inputs.class, %tuples
  %may.go = and i1 %is.free, %is.tuple
  br i1 %may.go, label %count.them, label %slowly
count.them:
  %count = call i64 @size_of(ptr %c, ptr %inputs)
  %are.few = icmp sle i64 %count, 8
  br i1 %are.few, label %look, label %slowly
look:
  %backend = call ptr @kinds(ptr %c, ptr %inputs, i64 %count, ptr %kinds)
  %is.nowhere = icmp eq ptr %backend, null
  br i1 %is.nowhere, label %slowly, label %keyed
keyed:
  %key = call ptr @key(ptr %c, ptr %form, ptr %kinds, i64 %count)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %forget, label %find
find:
  %get = call ptr @field(ptr %c, i64 8)
  %plans = call ptr @slot(ptr %c, i32 51, ptr %op)
  %found = call ptr %get(ptr %plans, ptr %key)
  %not.found = icmp eq ptr %found, null
  br i1 %not.found, label %missed, label %hold.it
missed:
  call void @drop(ptr %c, ptr %key)
  br label %forget
forget:
  call void @forget_error(ptr %c)
  br label %slowly
hold.it:
  ; Another thread may forget the plans meanwhile.
  call void @hold(ptr %c, ptr %found)
  call void @drop(ptr %c, ptr %key)
  %result = call ptr @slot(ptr %c, i32 52, ptr %found)
  %numbers = call ptr @slot(ptr %c, i32 54, ptr %found)
  %takes = call ptr @slot(ptr %c, i32 53, ptr %found)
  %several = call ptr @slot(ptr %c, i32 61, ptr %found)
  %has.one = icmp ne ptr %result, %none
  %has.several = icmp ne ptr %several, %none
  %has.result = or i1 %has.one, %has.several
  %types = select i1 %has.one, ptr %result, ptr %several
  %has.none = icmp eq ptr %numbers, %none
  %is.usual = and i1 %has.result, %has.none
  br i1 %is.usual, label %listed, label %unfit
listed:
  %list = call ptr @handles(ptr %c, ptr %inputs, i64 %count, ptr %takes)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %unfit, label %run
run:
  %name = call ptr @field(ptr %c, i64 36)
  %method = call ptr @attribute(ptr %c, ptr %backend, ptr %name)
  %no.method = icmp eq ptr %method, null
  br i1 %no.method, label %done, label %make
make:
  call void @hold(ptr %c, ptr %types)
  call void @hold(ptr %c, ptr %backend)
  %second.at = getelementptr [3 x ptr], ptr %passed, i64 0, i64 1
  %third.at = getelementptr [3 x ptr], ptr %passed, i64 0, i64 2
  store ptr %op, ptr %passed, align 8
  store ptr %list, ptr %second.at, align 8
  store ptr %found, ptr %third.at, align 8
  %results = call ptr @called(ptr %c, ptr %method, ptr %passed, i64 3)
  call void @drop(ptr %c, ptr %method)
  %raised = icmp eq ptr %results, null
  br i1 %raised, label %clean, label %look.at
look.at:
  %is.body = icmp eq ptr %results, %none
  br i1 %is.body, label %body, label %wrap
wrap:
  br i1 %has.one, label %wrap.one, label %wrap.all
wrap.one:
  %tensor.made = call ptr @wrapped(ptr %c, ptr %results, i64 0, ptr %types, ptr %backend)
  br label %drop.results
wrap.all:
  %tensors.made = call ptr @all_wrapped(ptr %c, ptr %results, ptr %types, ptr %backend)
  br label %drop.results
body:
  %expanded = call ptr @field(ptr %c, i64 38)
  store ptr %inputs, ptr %second.at, align 8
  %by.body = call ptr @called(ptr %c, ptr %expanded, ptr %passed, i64 3)
  br label %drop.results
drop.results:
  %made = phi ptr [ %tensor.made, %wrap.one ], [ %tensors.made, %wrap.all ], [ %by.body, %body ]
  call void @drop(ptr %c, ptr %results)
  br label %clean
clean:
  %out.made = phi ptr [ null, %make ], [ %made, %drop.results ]
  call void @drop(ptr %c, ptr %types)
  call void @drop(ptr %c, ptr %backend)
  br label %done
done:
  %out = phi ptr [ %out.made, %clean ], [ null, %run ]
  call void @drop(ptr %c, ptr %list)
  call void @drop(ptr %c, ptr %found)
  ret ptr %out
unfit:
  call void @drop(ptr %c, ptr %found)
  br label %slowly
slowly:
  %slow = call ptr @field(ptr %c, i64 37)
  %slow.made = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 4)
  ret ptr %slow.made
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %are.four = icmp eq i64 %given, 4
  br i1 %are.four, label %usual, label %slowly
usual:
  %made = call ptr @bound(ptr %c, ptr %arguments)
  ret ptr %made
slowly:
  %slow = call ptr @field(ptr %c, i64 37)
  %slow.made = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %slow.made
}
