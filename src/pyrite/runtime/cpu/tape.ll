; A call of an op that is noted on a tape: what `Autodiff.execute` does where a call of its plan was noted
; before.
;
; `execute` is a function of CPython's (METH_FASTCALL) that is bound as a method: self is the bytes of
; %Tape, its arguments are the decorator, an op, the list of its inputs, and its plan.  Where anything
; is not as in most calls nothing was done yet, and the Python that does the same is called.
;
; Functions of objects stand in `objects.ll`, those of results in `noted_results.ll`.

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

; Owned: the parents of a node.
define internal ptr @parents(ptr %c, ptr %r) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %integer = call ptr @field(ptr %c, i64 21)
  %count = load i64, ptr %r, align 8
  %parents = call ptr %new(i64 %count)
  %no.parents = icmp eq ptr %parents, null
  br i1 %no.parents, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %make, label %done
make:
  %parent = call ptr %new(i64 3)
  %no.parent = icmp eq ptr %parent, null
  br i1 %no.parent, label %lost, label %one
one:
  %position.at = getelementptr %Reached, ptr %r, i64 0, i32 2, i64 %n
  %node.at = getelementptr %Reached, ptr %r, i64 0, i32 3, i64 %n
  %index.at = getelementptr %Reached, ptr %r, i64 0, i32 4, i64 %n
  %place = load i64, ptr %position.at, align 8
  %node = load ptr, ptr %node.at, align 8
  %index = load ptr, ptr %index.at, align 8
  %position = call ptr %integer(i64 %place)
  call void @hold(ptr %c, ptr %node)
  call void @hold(ptr %c, ptr %index)
  %first = call i32 %set(ptr %parent, i64 0, ptr %position)
  %second = call i32 %set(ptr %parent, i64 1, ptr %node)
  %third = call i32 %set(ptr %parent, i64 2, ptr %index)
  %was.set = call i32 %set(ptr %parents, i64 %n, ptr %parent)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %parents
lost:
  call void @drop(ptr %c, ptr %parents)
  br label %failed
failed:
  ret ptr null
}

; Owned: what is saved of a call: the result, then the inputs, as far as the derivative wants them.
define internal ptr @saved(ptr %c, ptr %noting, ptr %inputs, ptr %value) {
entry:
  %yes = call ptr @field(ptr %c, i64 26)
  %variables = call ptr @field(ptr %c, i64 30)
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %get = call ptr @field(ptr %c, i64 20)
  %blank = call ptr @slot(ptr %c, i32 67, ptr %noting)
  %values = call ptr @slot(ptr %c, i32 66, ptr %noting)
  %takes = call ptr @slot(ptr %c, i32 65, ptr %noting)
  %takes.output = icmp eq ptr %takes, %yes
  %wanted = call i64 @size_of(ptr %c, ptr %values)
  %has.values = icmp ne i64 %wanted, 0
  %takes.some = or i1 %takes.output, %has.values
  br i1 %takes.some, label %make, label %same
same:
  call void @hold(ptr %c, ptr %blank)
  ret ptr %blank
make:
  %count = call i64 @size_of(ptr %c, ptr %blank)
  %saved = call ptr %new(i64 %count)
  %no.saved = icmp eq ptr %saved, null
  br i1 %no.saved, label %done, label %copy
copy:
  %n = phi i64 [ 0, %make ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %output
one:
  %empty = call ptr %get(ptr %blank, i64 %n)
  call void @hold(ptr %c, ptr %empty)
  %was.set = call i32 %set(ptr %saved, i64 %n, ptr %empty)
  %after = add i64 %n, 1
  br label %copy
output:
  br i1 %takes.output, label %put.output, label %next
put.output:
  call void @hold(ptr %c, ptr %value)
  %was.put = call i32 %set(ptr %saved, i64 0, ptr %value)
  br label %next
next:
  %m = phi i64 [ 0, %output ], [ 0, %put.output ], [ %m.after, %put ]
  %is.wanted = icmp slt i64 %m, %wanted
  br i1 %is.wanted, label %take, label %done
take:
  %number = call ptr %get(ptr %values, i64 %m)
  %position = call i64 @integer_of(ptr %c, ptr %number)
  %x = call ptr @item(ptr %c, ptr %inputs, i64 %position)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.variable = icmp eq ptr %class, %variables
  br i1 %is.variable, label %variable, label %put
variable:
  %its = call ptr @slot(ptr %c, i32 43, ptr %x)
  br label %put
put:
  %kept = phi ptr [ %x, %take ], [ %its, %variable ]
  %place = add i64 %position, 1
  call void @hold(ptr %c, ptr %kept)
  %put.it = call i32 %set(ptr %saved, i64 %place, ptr %kept)
  %m.after = add i64 %m, 1
  br label %next
done:
  ret ptr %saved
}

; Owned: the node of a call.
define internal ptr @node(ptr %c, ptr %arguments, ptr %noting, ptr %value, ptr %r) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %applied = call ptr @field(ptr %c, i64 31)
  %counter = call ptr @field(ptr %c, i64 34)
  %count.on = call ptr @field(ptr %c, i64 23)
  %op.at = getelementptr ptr, ptr %arguments, i64 1
  %inputs.at = getelementptr ptr, ptr %arguments, i64 2
  %plan.at = getelementptr ptr, ptr %arguments, i64 3
  %op = load ptr, ptr %op.at, align 8
  %inputs = load ptr, ptr %inputs.at, align 8
  %plan = load ptr, ptr %plan.at, align 8
  %node = call ptr @made(ptr %c, ptr %applied)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %failed, label %fill
fill:
  %order = call ptr %count.on(ptr %counter)
  %parents = call ptr @parents(ptr %c, ptr %r)
  %saved = call ptr @saved(ptr %c, ptr %noting, ptr %inputs, ptr %value)
  call void @replace(ptr %c, i32 50, ptr %node, ptr %order)
  call void @replace(ptr %c, i32 52, ptr %node, ptr %parents)
  call void @replace(ptr %c, i32 58, ptr %node, ptr %saved)
  %no.order = icmp eq ptr %order, null
  %no.parents = icmp eq ptr %parents, null
  %no.saved = icmp eq ptr %saved, null
  %lacks.some = or i1 %no.order, %no.parents
  %lacks = or i1 %lacks.some, %no.saved
  br i1 %lacks, label %lost, label %copy
copy:
  %outs = call ptr @slot(ptr %c, i32 61, ptr %noting)
  %tracked = call ptr @slot(ptr %c, i32 62, ptr %noting)
  %active = call ptr @slot(ptr %c, i32 63, ptr %noting)
  %has.numbers = call ptr @slot(ptr %c, i32 64, ptr %noting)
  call void @put(ptr %c, i32 51, ptr %node, ptr %outs)
  call void @put(ptr %c, i32 55, ptr %node, ptr %tracked)
  call void @put(ptr %c, i32 49, ptr %node, ptr %active)
  call void @put(ptr %c, i32 56, ptr %node, ptr %has.numbers)
  call void @put(ptr %c, i32 53, ptr %node, ptr %op)
  call void @put(ptr %c, i32 54, ptr %node, ptr %plan)
  call void @put(ptr %c, i32 57, ptr %node, ptr %none)
  ret ptr %node
lost:
  call void @drop(ptr %c, ptr %node)
  br label %failed
failed:
  ret ptr null
}

; Owned: a tuple of variables of these values, in order: of a node, where they are floats, or, with no
; Owned: a tuple of the variables of the results of a call that no gradient flows through; null with an
