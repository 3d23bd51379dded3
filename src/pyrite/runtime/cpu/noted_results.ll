; The results of a call on a tape: variables, of a node or of none.
;
; It stands behind `tape.ll`, whose table it has.

; Owned: a tensor one level down of one of some results; null with an error.
define internal ptr @lower_tensor(ptr %c, ptr %results, i64 %n, ptr %type, ptr %inner) {
entry:
  %get = call ptr @field(ptr %c, i64 22)
  %tensors = call ptr @field(ptr %c, i64 32)
  %handle = call ptr %get(ptr %results, i64 %n)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %failed, label %make
make:
  %value = call ptr @made(ptr %c, ptr %tensors)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %lost, label %fill
fill:
  call void @put(ptr %c, i32 47, ptr %value, ptr %type)
  call void @put(ptr %c, i32 48, ptr %value, ptr %inner)
  call void @replace(ptr %c, i32 46, ptr %value, ptr %handle)
  ret ptr %value
lost:
  call void @drop(ptr %c, ptr %handle)
  br label %failed
failed:
  ret ptr null
}

; Owned: a tuple of the variable of a call's result; null with an error.
define internal ptr @noted(ptr %c, ptr %arguments, ptr %noting, ptr %results, ptr %inner, ptr %r) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %yes = call ptr @field(ptr %c, i64 26)
  %zero = call ptr @field(ptr %c, i64 29)
  %variables = call ptr @field(ptr %c, i64 30)
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %type = call ptr @slot(ptr %c, i32 59, ptr %noting)
  %float = call ptr @slot(ptr %c, i32 60, ptr %noting)
  %value = call ptr @lower_tensor(ptr %c, ptr %results, i64 0, ptr %type, ptr %inner)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %failed, label %ask
ask:
  %is.float = icmp eq ptr %float, %yes
  br i1 %is.float, label %node.it, label %constant
constant:
  call void @hold(ptr %c, ptr %none)
  br label %make
node.it:
  %noted = call ptr @node(ptr %c, ptr %arguments, ptr %noting, ptr %value, ptr %r)
  %not.noted = icmp eq ptr %noted, null
  br i1 %not.noted, label %lost, label %make
make:
  %node = phi ptr [ %none, %constant ], [ %noted, %node.it ]
  %variable = call ptr @made(ptr %c, ptr %variables)
  %out = call ptr %new(i64 1)
  %no.variable = icmp eq ptr %variable, null
  %no.out = icmp eq ptr %out, null
  %lacks = or i1 %no.variable, %no.out
  br i1 %lacks, label %lost.node, label %fill
fill:
  call void @put(ptr %c, i32 45, ptr %variable, ptr %zero)
  call void @replace(ptr %c, i32 43, ptr %variable, ptr %value)
  call void @replace(ptr %c, i32 44, ptr %variable, ptr %node)
  %was.set = call i32 %set(ptr %out, i64 0, ptr %variable)
  ret ptr %out
lost.node:
  call void @drop(ptr %c, ptr %node)
  call void @drop(ptr %c, ptr %variable)
  call void @drop(ptr %c, ptr %out)
  br label %lost
lost:
  call void @drop(ptr %c, ptr %value)
  br label %failed
failed:
  ret ptr null
}

; Owned: the tuple of the tensors one level down of all results; null with an error.
define internal ptr @lower_tensors(ptr %c, ptr %results, ptr %types, ptr %inner) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %get = call ptr @field(ptr %c, i64 20)
  %count = call i64 @size_of(ptr %c, ptr %types)
  %values = call ptr %new(i64 %count)
  %no.values = icmp eq ptr %values, null
  br i1 %no.values, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %type = call ptr %get(ptr %types, i64 %n)
  %value = call ptr @lower_tensor(ptr %c, ptr %results, i64 %n, ptr %type, ptr %inner)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %lost, label %put
put:
  %was.put = call i32 %set(ptr %values, i64 %n, ptr %value)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %values
lost:
  call void @drop(ptr %c, ptr %values)
  br label %failed
failed:
  ret ptr null
}

; floats, of none; null with an error.
define internal ptr @variables(ptr %c, ptr %values, ptr %node, ptr %floats) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %yes = call ptr @field(ptr %c, i64 26)
  %zero = call ptr @field(ptr %c, i64 29)
  %variables = call ptr @field(ptr %c, i64 30)
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %get = call ptr @field(ptr %c, i64 20)
  %integer = call ptr @field(ptr %c, i64 21)
  %has.none = icmp eq ptr %floats, %none
  %count = call i64 @size_of(ptr %c, ptr %values)
  %out = call ptr %new(i64 %count)
  %no.out = icmp eq ptr %out, null
  br i1 %no.out, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %variable = call ptr @made(ptr %c, ptr %variables)
  %no.variable = icmp eq ptr %variable, null
  br i1 %no.variable, label %lost, label %put.value
put.value:
  %was.put = call i32 %set(ptr %out, i64 %n, ptr %variable)
  %value = call ptr %get(ptr %values, i64 %n)
  call void @put(ptr %c, i32 43, ptr %variable, ptr %value)
  br i1 %has.none, label %constant, label %numbered
constant:
  call void @put(ptr %c, i32 44, ptr %variable, ptr %none)
  call void @put(ptr %c, i32 45, ptr %variable, ptr %zero)
  br label %put
numbered:
  %index = call ptr %integer(i64 %n)
  %no.index = icmp eq ptr %index, null
  br i1 %no.index, label %lost, label %ask
ask:
  %is.float = call ptr %get(ptr %floats, i64 %n)
  %has.node = icmp eq ptr %is.float, %yes
  %its = select i1 %has.node, ptr %node, ptr %none
  call void @put(ptr %c, i32 44, ptr %variable, ptr %its)
  call void @replace(ptr %c, i32 45, ptr %variable, ptr %index)
  br label %put
put:
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %out
lost:
  call void @drop(ptr %c, ptr %out)
  br label %failed
failed:
  ret ptr null
}

; Owned: a tuple of the variables of a call's results; null with an error.
define internal ptr @all_noted(ptr %c, ptr %arguments, ptr %noting, ptr %results, ptr %inner, ptr %r) {
entry:
  %floats = call ptr @slot(ptr %c, i32 68, ptr %noting)
  %types = call ptr @slot(ptr %c, i32 61, ptr %noting)
  %values = call ptr @lower_tensors(ptr %c, ptr %results, ptr %types, ptr %inner)
  %no.values = icmp eq ptr %values, null
  br i1 %no.values, label %failed, label %note
note:
  %node = call ptr @node(ptr %c, ptr %arguments, ptr %noting, ptr %values, ptr %r)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %lost, label %make
make:
  %out = call ptr @variables(ptr %c, ptr %values, ptr %node, ptr %floats)
  call void @drop(ptr %c, ptr %node)
  call void @drop(ptr %c, ptr %values)
  ret ptr %out
lost:
  call void @drop(ptr %c, ptr %values)
  br label %failed
failed:
  ret ptr null
}

; error.
define internal ptr @constants(ptr %c, ptr %results, ptr %types, ptr %inner) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %values = call ptr @lower_tensors(ptr %c, ptr %results, ptr %types, ptr %inner)
  %no.values = icmp eq ptr %values, null
  br i1 %no.values, label %failed, label %make
make:
  %out = call ptr @variables(ptr %c, ptr %values, ptr %none, ptr %none)
  call void @drop(ptr %c, ptr %values)
  ret ptr %out
failed:
  ret ptr null
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  %passed = alloca [3 x ptr], align 8
  %r = alloca %Reached, align 8
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %none = call ptr @field(ptr %c, i64 25)
  %yes = call ptr @field(ptr %c, i64 26)
  %lists = call ptr @field(ptr %c, i64 28)
  %keeps = call ptr @field(ptr %c, i64 35)
  %are.four = icmp eq i64 %given, 4
  br i1 %are.four, label %ask, label %slowly
ask:
  %tape = load ptr, ptr %arguments, align 8
  %op.at = getelementptr ptr, ptr %arguments, i64 1
  %inputs.at = getelementptr ptr, ptr %arguments, i64 2
  %plan.at = getelementptr ptr, ptr %arguments, i64 3
  %op = load ptr, ptr %op.at, align 8
  %inputs = load ptr, ptr %inputs.at, align 8
  %plan = load ptr, ptr %plan.at, align 8
  %class = call ptr @class_of(ptr %c, ptr %inputs)
  %kept = call ptr @slot(ptr %c, i32 41, ptr %plan)
  %strategy = call ptr @slot(ptr %c, i32 40, ptr %tape)
  %is.list = icmp eq ptr %class, %lists
  %is.kept = icmp eq ptr %kept, %yes
  %keeps.all = icmp eq ptr %strategy, %keeps
  %is.known = and i1 %is.list, %is.kept
  %is.usual = and i1 %is.known, %keeps.all
  br i1 %is.usual, label %count.them, label %slowly
count.them:
  %count = call i64 @size_of(ptr %c, ptr %inputs)
  %are.few = icmp sle i64 %count, 8
  %is.recording = call i1 @is_recording(ptr %c)
  %may.go = and i1 %are.few, %is.recording
  br i1 %may.go, label %lower, label %slowly
lower:
  %list.new = call ptr @field(ptr %c, i64 10)
  %handles = call ptr %list.new(i64 %count)
  %no.handles = icmp eq ptr %handles, null
  br i1 %no.handles, label %forget, label %reach
reach:
  %are.lowered = call i1 @lowered(ptr %c, ptr %inputs, i64 %count, ptr %handles, ptr %r)
  %reached = load i64, ptr %r, align 8
  %is.reached = icmp sgt i64 %reached, 0
  br i1 %are.lowered, label %ask.reached, label %undo
ask.reached:
  br i1 %is.reached, label %find, label %ask.types
ask.types:
  ; Nothing is noted then.
  %types = call ptr @slot(ptr %c, i32 69, ptr %plan)
  %are.unknown = icmp eq ptr %types, %none
  br i1 %are.unknown, label %undo, label %hold.types
hold.types:
  call void @hold(ptr %c, ptr %types)
  br label %run
find:
  %found = call ptr @noting(ptr %c, ptr %plan, ptr %r)
  %is.new = icmp eq ptr %found, null
  br i1 %is.new, label %undo, label %run
run:
  %noting = phi ptr [ %types, %hold.types ], [ %found, %find ]
  %inner = call ptr @slot(ptr %c, i32 39, ptr %tape)
  %name = call ptr @field(ptr %c, i64 36)
  %method = call ptr @attribute(ptr %c, ptr %inner, ptr %name)
  %no.method = icmp eq ptr %method, null
  br i1 %no.method, label %undo.noting, label %call
call:
  %second.at = getelementptr ptr, ptr %passed, i64 1
  %third.at = getelementptr ptr, ptr %passed, i64 2
  store ptr %op, ptr %passed, align 8
  store ptr %handles, ptr %second.at, align 8
  store ptr %plan, ptr %third.at, align 8
  %results = call ptr @called(ptr %c, ptr %method, ptr %passed, i64 3)
  call void @drop(ptr %c, ptr %method)
  %raised = icmp eq ptr %results, null
  br i1 %raised, label %end, label %look
look:
  ; A body: it is asked for again, and expanded.
  %is.body = icmp eq ptr %results, %none
  br i1 %is.body, label %undo.results, label %note
note:
  br i1 %is.reached, label %ask.one, label %constants
constants:
  %constants.made = call ptr @constants(ptr %c, ptr %results, ptr %noting, ptr %inner)
  br label %drop.results
ask.one:
  %result = call ptr @slot(ptr %c, i32 59, ptr %noting)
  %has.several = icmp eq ptr %result, %none
  br i1 %has.several, label %several, label %one
one:
  %one.noted = call ptr @noted(ptr %c, ptr %arguments, ptr %noting, ptr %results, ptr %inner, ptr %r)
  br label %drop.results
several:
  %all.noted = call ptr @all_noted(ptr %c, ptr %arguments, ptr %noting, ptr %results, ptr %inner, ptr %r)
  br label %drop.results
drop.results:
  %noted = phi ptr [ %constants.made, %constants ], [ %one.noted, %one ], [ %all.noted, %several ]
  call void @drop(ptr %c, ptr %results)
  br label %end
end:
  %out = phi ptr [ null, %call ], [ %noted, %drop.results ]
  call void @drop(ptr %c, ptr %noting)
  call void @drop(ptr %c, ptr %handles)
  ret ptr %out
undo.results:
  call void @drop(ptr %c, ptr %results)
  br label %undo.noting
undo.noting:
  call void @drop(ptr %c, ptr %noting)
  br label %undo
undo:
  call void @drop(ptr %c, ptr %handles)
  br label %forget
forget:
  call void @forget_error(ptr %c)
  br label %slowly
slowly:
  %slow = call ptr @field(ptr %c, i64 37)
  %by.python = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %by.python
}
