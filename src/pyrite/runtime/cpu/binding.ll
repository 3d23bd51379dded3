; The way of a call from an op's method to its backend: what `call_one` and `call_two` of
; `pyrite.op.binding` do, for calls that were planned before.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Binding, its arguments
; are an op, the tuple of its inputs, its attributes, and their form.  The inputs are a tensor, two on
; one backend, or a tensor and a Python number.  Where anything else is so as in few calls, nothing was
; done yet, and the Python that does the same is called.
;
; Functions of objects stand in `objects.ll`.

%Binding = type {
  ; Functions of the C API: 20 as in `call.ll`, and more.
  [20 x ptr],
  ptr, ; 20 PySequence_GetItem
  ptr, ; 21 PyTuple_GetItem
  ; Objects.
  ptr, ; 22 None
  ptr, ; 23 tuple
  ptr, ; 24 float
  ptr, ; 25 int
  ptr, ; 26 the class of tensors
  ptr, ; 27 the class of numbers
  ptr, ; 28 a list that is empty unless a block forbids something
  ptr, ; 29 the name of a backend's `execute`
  ptr, ; 30 `call_one`
  ptr, ; 31 `call_two`
  ptr, ; 32 what makes the result by the body of an op
  ; Bytes from the beginning of an object to its slots.
  i64, ; 33 any object: its class
  i64, ; 34 a tensor: handle
  i64, ; 35 type
  i64, ; 36 backend
  i64, ; 37 a type: key
  i64, ; 38 an op: plans
  i64, ; 39 a plan: result
  i64, ; 40 takes
  i64, ; 41 numbers
  i64, ; 42 a number: value
  i64  ; 43 type
}

; Owned: the key of a plan; null where there is no memory.
define internal ptr @key(ptr %c, ptr %form, ptr %x, ptr %kind) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %is.one = icmp eq ptr %kind, null
  %count = select i1 %is.one, i64 2, i64 3
  %key = call ptr %new(i64 %count)
  %none = icmp eq ptr %key, null
  br i1 %none, label %done, label %fill
fill:
  %type = call ptr @slot(ptr %c, i32 35, ptr %x)
  %number = call ptr @slot(ptr %c, i32 37, ptr %type)
  call void @hold(ptr %c, ptr %form)
  %first = call i32 %set(ptr %key, i64 0, ptr %form)
  call void @hold(ptr %c, ptr %number)
  %second = call i32 %set(ptr %key, i64 1, ptr %number)
  br i1 %is.one, label %done, label %more
more:
  call void @hold(ptr %c, ptr %kind)
  %third = call i32 %set(ptr %key, i64 2, ptr %kind)
  br label %done
done:
  ret ptr %key
}

; What the plan of a call says of its other input: the number of its type, or its class; null for an
; input of another kind.
define internal ptr @kind(ptr %c, ptr %y, ptr %backend) {
entry:
  %class = call ptr @class_of(ptr %c, ptr %y)
  %tensors = call ptr @field(ptr %c, i64 26)
  %floats = call ptr @field(ptr %c, i64 24)
  %integers = call ptr @field(ptr %c, i64 25)
  %is.tensor = icmp eq ptr %class, %tensors
  br i1 %is.tensor, label %tensor, label %other
tensor:
  %its = call ptr @slot(ptr %c, i32 36, ptr %y)
  %is.here = icmp eq ptr %its, %backend
  br i1 %is.here, label %here, label %unknown
here:
  %type = call ptr @slot(ptr %c, i32 35, ptr %y)
  %number = call ptr @slot(ptr %c, i32 37, ptr %type)
  ret ptr %number
other:
  %is.float = icmp eq ptr %class, %floats
  %is.integer = icmp eq ptr %class, %integers
  %is.number = or i1 %is.float, %is.integer
  %found = select i1 %is.number, ptr %class, ptr null
  ret ptr %found
unknown:
  ret ptr null
}

; Owned: what a backend gets of the other input: the handle of a tensor, or a number with the type
; that the plan has it take.  Null, and no error, where the plan says other than is so in most calls.
define internal ptr @other(ptr %c, ptr %y, ptr %takes) {
entry:
  %none = call ptr @field(ptr %c, i64 22)
  %tensors = call ptr @field(ptr %c, i64 26)
  %class = call ptr @class_of(ptr %c, ptr %y)
  %is.tensor = icmp eq ptr %class, %tensors
  %takes.none = icmp eq ptr %takes, %none
  br i1 %is.tensor, label %tensor, label %number
tensor:
  br i1 %takes.none, label %lift, label %unknown
lift:
  %handle = call ptr @slot(ptr %c, i32 34, ptr %y)
  call void @hold(ptr %c, ptr %handle)
  ret ptr %handle
number:
  br i1 %takes.none, label %unknown, label %typed
typed:
  %get = call ptr @field(ptr %c, i64 21)
  %type = call ptr %get(ptr %takes, i64 1)
  %no.type = icmp eq ptr %type, null
  br i1 %no.type, label %failed, label %make
make:
  %numbers = call ptr @field(ptr %c, i64 27)
  %made = call ptr @made(ptr %c, ptr %numbers)
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %failed, label %fill
fill:
  call void @put(ptr %c, i32 42, ptr %made, ptr %y)
  call void @put(ptr %c, i32 43, ptr %made, ptr %type)
  ret ptr %made
failed:
  call void @forget_error(ptr %c)
  br label %unknown
unknown:
  ret ptr null
}

; Owned: the tensor of the first of some results.
define internal ptr @wrapped(ptr %c, ptr %results, ptr %type, ptr %backend) {
entry:
  %get = call ptr @field(ptr %c, i64 20)
  %handle = call ptr %get(ptr %results, i64 0)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %none, label %make
make:
  %tensors = call ptr @field(ptr %c, i64 26)
  %tensor = call ptr @made(ptr %c, ptr %tensors)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %lost, label %fill
fill:
  call void @put(ptr %c, i32 34, ptr %tensor, ptr %handle)
  call void @put(ptr %c, i32 35, ptr %tensor, ptr %type)
  call void @put(ptr %c, i32 36, ptr %tensor, ptr %backend)
  call void @drop(ptr %c, ptr %handle)
  ret ptr %tensor
lost:
  call void @drop(ptr %c, ptr %handle)
  br label %none
none:
  ret ptr null
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  %passed = alloca [3 x ptr], align 8
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %none = call ptr @field(ptr %c, i64 22)
  %op = load ptr, ptr %arguments, align 8
  %inputs.at = getelementptr ptr, ptr %arguments, i64 1
  %inputs = load ptr, ptr %inputs.at, align 8
  %form.at = getelementptr ptr, ptr %arguments, i64 3
  %form = load ptr, ptr %form.at, align 8
  %item = call ptr @field(ptr %c, i64 21)
  %tuples = call ptr @field(ptr %c, i64 23)
  %tensors = call ptr @field(ptr %c, i64 26)
  %restrictions = call ptr @field(ptr %c, i64 28)
  %count = call i64 @size_of(ptr %c, ptr %inputs)
  %forbidding = call i64 @size_of(ptr %c, ptr %restrictions)
  %is.one = icmp eq i64 %count, 1
  %is.two = icmp eq i64 %count, 2
  %are.few = or i1 %is.one, %is.two
  %is.free = icmp eq i64 %forbidding, 0
  %inputs.class = call ptr @class_of(ptr %c, ptr %inputs)
  %is.tuple = icmp eq ptr %inputs.class, %tuples
  %is.plain = and i1 %is.free, %is.tuple
  %may.go = and i1 %is.plain, %are.few
  br i1 %may.go, label %look, label %slowly
look:
  %x = call ptr %item(ptr %inputs, i64 0)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.tensor = icmp eq ptr %class, %tensors
  br i1 %is.tensor, label %tensor, label %slowly
tensor:
  %backend = call ptr @slot(ptr %c, i32 36, ptr %x)
  br i1 %is.one, label %keyed, label %two
two:
  %y = call ptr %item(ptr %inputs, i64 1)
  %kind.of = call ptr @kind(ptr %c, ptr %y, ptr %backend)
  %is.other = icmp eq ptr %kind.of, null
  br i1 %is.other, label %slowly, label %keyed
keyed:
  %second = phi ptr [ null, %tensor ], [ %y, %two ]
  %kind = phi ptr [ null, %tensor ], [ %kind.of, %two ]
  %key = call ptr @key(ptr %c, ptr %form, ptr %x, ptr %kind)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %forget, label %find
find:
  %get = call ptr @field(ptr %c, i64 8)
  %plans = call ptr @slot(ptr %c, i32 38, ptr %op)
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
  %result = call ptr @slot(ptr %c, i32 39, ptr %found)
  %numbers = call ptr @slot(ptr %c, i32 41, ptr %found)
  %takes = call ptr @slot(ptr %c, i32 40, ptr %found)
  %has.result = icmp ne ptr %result, %none
  %has.none = icmp eq ptr %numbers, %none
  %is.usual = and i1 %has.result, %has.none
  br i1 %is.usual, label %listed, label %unfit
listed:
  %list.new = call ptr @field(ptr %c, i64 10)
  %list.set = call ptr @field(ptr %c, i64 18)
  %list = call ptr %list.new(i64 %count)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %unlisted, label %first
first:
  %handle = call ptr @slot(ptr %c, i32 34, ptr %x)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %undo, label %set.one
set.one:
  call void @hold(ptr %c, ptr %handle)
  %set.first = call i32 %list.set(ptr %list, i64 0, ptr %handle)
  br i1 %is.one, label %run, label %more
more:
  %other = call ptr @other(ptr %c, ptr %second, ptr %takes)
  %no.other = icmp eq ptr %other, null
  br i1 %no.other, label %undo, label %set
set:
  %set.second = call i32 %list.set(ptr %list, i64 1, ptr %other)
  br label %run
run:
  %name = call ptr @field(ptr %c, i64 29)
  %method = call ptr @attribute(ptr %c, ptr %backend, ptr %name)
  %no.method = icmp eq ptr %method, null
  br i1 %no.method, label %done, label %make
make:
  call void @hold(ptr %c, ptr %result)
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
  %tensor.made = call ptr @wrapped(ptr %c, ptr %results, ptr %result, ptr %backend)
  br label %drop.results
body:
  %expanded = call ptr @field(ptr %c, i64 32)
  store ptr %inputs, ptr %second.at, align 8
  %by.body = call ptr @called(ptr %c, ptr %expanded, ptr %passed, i64 3)
  br label %drop.results
drop.results:
  %made = phi ptr [ %tensor.made, %wrap ], [ %by.body, %body ]
  call void @drop(ptr %c, ptr %results)
  br label %clean
clean:
  %out.made = phi ptr [ null, %make ], [ %made, %drop.results ]
  call void @drop(ptr %c, ptr %result)
  call void @drop(ptr %c, ptr %backend)
  br label %done
done:
  %out = phi ptr [ %out.made, %clean ], [ null, %run ]
  call void @drop(ptr %c, ptr %list)
  call void @drop(ptr %c, ptr %found)
  ret ptr %out
undo:
  call void @drop(ptr %c, ptr %list)
  br label %unfit
unlisted:
  call void @forget_error(ptr %c)
  br label %unfit
unfit:
  call void @drop(ptr %c, ptr %found)
  br label %slowly
slowly:
  %slow.one = call ptr @field(ptr %c, i64 30)
  %slow.two = call ptr @field(ptr %c, i64 31)
  %slow = select i1 %is.one, ptr %slow.one, ptr %slow.two
  %slow.made = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %slow.made
}
