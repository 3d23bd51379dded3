; The node of a call on a tape.
;
; It stands behind `tape.ll`, whose table it has.

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
