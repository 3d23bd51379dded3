; A call of an op that is noted on a tape: what `Autodiff.execute` does where a call of its plan was noted
; before.
;
; `execute` is a function of CPython's (METH_FASTCALL) that is bound as a method: self is the bytes of
; %Tape, its arguments are the decorator, an op, the list of its inputs, and its plan.  Where anything
; is not as in most calls nothing was done yet, and the Python that does the same is called.
;
; Functions of objects stand in `objects.ll`, those of results in `noted_results.ll`, of
; nodes in `noted_node.ll`.

%Tape = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ptr, ; 20 PyTuple_GetItem
  ptr, ; 21 PyLong_FromLongLong
  ptr, ; 22 PySequence_GetItem
  ptr, ; 23 PyIter_Next
  ptr, ; 24 PyContextVar_Get
  ; Objects.
  ptr, ; 25 None
  ptr, ; 26 True
  ptr, ; 27 ()
  ptr, ; 28 list
  ptr, ; 29 0
  ptr, ; 30 the class of variables
  ptr, ; 31 the class of nodes of ops
  ptr, ; 32 the class of tensors
  ptr, ; 33 the variable of levels that are paused
  ptr, ; 34 what counts the nodes
  ptr, ; 35 the strategy that keeps all
  ptr, ; 36 the name of a backend's `execute`
  ptr, ; 37 the Python that does the same
  ; Bytes from the beginning of an object to its slots.
  i64, ; 38 any object: its class
  i64, ; 39 the decorator: inner
  i64, ; 40 checkpointing
  i64, ; 41 a plan: is_kept
  i64, ; 42 tapes
  i64, ; 43 a variable: value
  i64, ; 44 node
  i64, ; 45 index
  i64, ; 46 a tensor: handle
  i64, ; 47 type
  i64, ; 48 backend
  i64, ; 49 a node: active
  i64, ; 50 order
  i64, ; 51 outs
  i64, ; 52 parents
  i64, ; 53 of an op: op
  i64, ; 54 plan
  i64, ; 55 tracked
  i64, ; 56 has_numbers
  i64, ; 57 run_inputs
  i64, ; 58 saved
  i64, ; 59 what is to be noted: result
  i64, ; 60 is_float
  i64, ; 61 outs
  i64, ; 62 tracked
  i64, ; 63 is_active
  i64, ; 64 has_numbers
  i64, ; 65 takes_output
  i64, ; 66 values
  i64, ; 67 blank
  i64, ; 68 floats
  i64  ; 69 a plan: out
}

; The inputs of a call that have nodes: how many, how many of them are active, and of each its position,
; node and index; then the positions of those that are active.
%Reached = type { i64, i64, [8 x i64], [8 x ptr], [8 x ptr], [8 x i64] }

; Whether calls are noted at all levels.
define internal i1 @is_recording(ptr %c) {
  %found = alloca ptr, align 8
  store ptr null, ptr %found, align 8
  %get = call ptr @field(ptr %c, i64 24)
  %paused = call ptr @field(ptr %c, i64 33)
  %nothing = call ptr @field(ptr %c, i64 27)
  %not.got = call i32 %get(ptr %paused, ptr null, ptr %found)
  %levels = load ptr, ptr %found, align 8
  %are.none = icmp eq ptr %levels, %nothing
  call void @drop(ptr %c, ptr %levels)
  ret i1 %are.none
}

; Fill a list with the handles of inputs, and put down which have nodes; false where an input is of what
; is to be computed again.
define internal i1 @lowered(ptr %c, ptr %inputs, i64 %count, ptr %handles, ptr %r) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %yes = call ptr @field(ptr %c, i64 26)
  %variables = call ptr @field(ptr %c, i64 30)
  %applied = call ptr @field(ptr %c, i64 31)
  %set = call ptr @field(ptr %c, i64 18)
  %active.at = getelementptr %Reached, ptr %r, i64 0, i32 1
  store i64 0, ptr %r, align 8
  store i64 0, ptr %active.at, align 8
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %go.on ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %x = call ptr @item(ptr %c, ptr %inputs, i64 %n)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.variable = icmp eq ptr %class, %variables
  br i1 %is.variable, label %variable, label %put
variable:
  %value = call ptr @slot(ptr %c, i32 43, ptr %x)
  %handle = call ptr @slot(ptr %c, i32 46, ptr %value)
  %node = call ptr @slot(ptr %c, i32 44, ptr %x)
  %is.constant = icmp eq ptr %node, %none
  br i1 %is.constant, label %put, label %reached
reached:
  %kind = call ptr @class_of(ptr %c, ptr %node)
  %is.applied = icmp eq ptr %kind, %applied
  br i1 %is.applied, label %ask, label %note
ask:
  %again = call ptr @slot(ptr %c, i32 57, ptr %node)
  %is.kept = icmp eq ptr %again, %none
  br i1 %is.kept, label %note, label %no
note:
  %parents = load i64, ptr %r, align 8
  %index = call ptr @slot(ptr %c, i32 45, ptr %x)
  %position.at = getelementptr %Reached, ptr %r, i64 0, i32 2, i64 %parents
  %node.at = getelementptr %Reached, ptr %r, i64 0, i32 3, i64 %parents
  %index.at = getelementptr %Reached, ptr %r, i64 0, i32 4, i64 %parents
  store i64 %n, ptr %position.at, align 8
  store ptr %node, ptr %node.at, align 8
  store ptr %index, ptr %index.at, align 8
  %more.parents = add i64 %parents, 1
  store i64 %more.parents, ptr %r, align 8
  %active = call ptr @slot(ptr %c, i32 49, ptr %node)
  %is.active = icmp eq ptr %active, %yes
  br i1 %is.active, label %note.active, label %put
note.active:
  %known = load i64, ptr %active.at, align 8
  %leaf.at = getelementptr %Reached, ptr %r, i64 0, i32 5, i64 %known
  store i64 %n, ptr %leaf.at, align 8
  %more.known = add i64 %known, 1
  store i64 %more.known, ptr %active.at, align 8
  br label %put
put:
  %given = phi ptr [ %x, %look ], [ %handle, %variable ], [ %handle, %note ], [ %handle, %note.active ]
  call void @hold(ptr %c, ptr %given)
  %was.set = call i32 %set(ptr %handles, i64 %n, ptr %given)
  br label %go.on
go.on:
  %after = add i64 %n, 1
  br label %next
done:
  ret i1 true
no:
  ret i1 false
}

; Owned: what there is to note of calls of a plan with leaves under these inputs; null, and maybe an
; error, where it was not found out, and where Python notes it.
define internal ptr @noting(ptr %c, ptr %plan, ptr %r) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %get = call ptr @field(ptr %c, i64 8)
  %integer = call ptr @field(ptr %c, i64 21)
  %count.at = getelementptr %Reached, ptr %r, i64 0, i32 1
  %count = load i64, ptr %count.at, align 8
  %leaves = call ptr %new(i64 %count)
  %no.leaves = icmp eq ptr %leaves, null
  br i1 %no.leaves, label %unknown, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %find
one:
  %leaf.at = getelementptr %Reached, ptr %r, i64 0, i32 5, i64 %n
  %leaf = load i64, ptr %leaf.at, align 8
  %position = call ptr %integer(i64 %leaf)
  %was.set = call i32 %set(ptr %leaves, i64 %n, ptr %position)
  %after = add i64 %n, 1
  br label %next
find:
  %tapes = call ptr @slot(ptr %c, i32 42, ptr %plan)
  %found = call ptr %get(ptr %tapes, ptr %leaves)
  %is.missing = icmp eq ptr %found, null
  br i1 %is.missing, label %drop.leaves, label %look
look:
  %result = call ptr @slot(ptr %c, i32 59, ptr %found)
  %floats = call ptr @slot(ptr %c, i32 68, ptr %found)
  %not.one = icmp eq ptr %result, %none
  %not.several = icmp eq ptr %floats, %none
  %by.python = and i1 %not.one, %not.several
  br i1 %by.python, label %drop.leaves, label %hold.it
hold.it:
  call void @hold(ptr %c, ptr %found)
  call void @drop(ptr %c, ptr %leaves)
  ret ptr %found
drop.leaves:
  call void @drop(ptr %c, ptr %leaves)
  br label %unknown
unknown:
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
