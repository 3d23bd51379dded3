; Calls that a subscript of a tensor stands for: what `call_known` of `pyrite.op.calls` does, for
; subscripts that were given before.
;
; It stands behind `sorting.ll`, and has the table of `binding.ll`.  Where anything is not as in most
; calls nothing was done yet, and the Python that does the same is called.

; Whether what a slice begins, ends or steps by is a number that is a key, or None.
define internal i1 @is_end(ptr %c, ptr %x) {
  %none = call ptr @field(ptr %c, i64 26)
  %integers = call ptr @field(ptr %c, i64 29)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.integer = icmp eq ptr %class, %integers
  %is.none = icmp eq ptr %x, %none
  %is.end = or i1 %is.integer, %is.none
  ret i1 %is.end
}

; Put down what an item of a subscript is known by, borrowed; return how many words that are, -1 where
; Python has to look.
define internal i64 @item_parts(ptr %c, ptr %x, ptr %parts) {
entry:
  %none = call ptr @field(ptr %c, i64 26)
  %integers = call ptr @field(ptr %c, i64 29)
  %slices = call ptr @field(ptr %c, i64 43)
  %dots = call ptr @field(ptr %c, i64 44)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.integer = icmp eq ptr %class, %integers
  %is.none = icmp eq ptr %x, %none
  %is.dots = icmp eq ptr %x, %dots
  %is.fixed = or i1 %is.none, %is.dots
  %is.one = or i1 %is.integer, %is.fixed
  br i1 %is.one, label %one, label %ask
one:
  store ptr %x, ptr %parts, align 8
  ret i64 1
ask:
  %is.slice = icmp eq ptr %class, %slices
  br i1 %is.slice, label %slice, label %unknown
slice:
  %start = call ptr @slot(ptr %c, i32 64, ptr %x)
  %stop = call ptr @slot(ptr %c, i32 65, ptr %x)
  %step = call ptr @slot(ptr %c, i32 66, ptr %x)
  %has.start = call i1 @is_end(ptr %c, ptr %start)
  %has.stop = call i1 @is_end(ptr %c, ptr %stop)
  %has.step = call i1 @is_end(ptr %c, ptr %step)
  %has.ends = and i1 %has.start, %has.stop
  %has.all = and i1 %has.ends, %has.step
  br i1 %has.all, label %put, label %unknown
put:
  %start.at = getelementptr ptr, ptr %parts, i64 1
  %stop.at = getelementptr ptr, ptr %parts, i64 2
  %step.at = getelementptr ptr, ptr %parts, i64 3
  store ptr %class, ptr %parts, align 8
  store ptr %start, ptr %start.at, align 8
  store ptr %stop, ptr %stop.at, align 8
  store ptr %step, ptr %step.at, align 8
  ret i64 4
unknown:
  ret i64 -1
}

; Put down the number of a type, and what a subscript is known by, borrowed; return how many words that
; are, -1 where Python has to look.
define internal i64 @subscript_parts(ptr %c, ptr %type, ptr %subscript, ptr %parts) {
entry:
  %tuples = call ptr @field(ptr %c, i64 27)
  %item = call ptr @field(ptr %c, i64 21)
  %key = call ptr @slot(ptr %c, i32 50, ptr %type)
  %shape = call ptr @slot(ptr %c, i32 62, ptr %type)
  store ptr %key, ptr %parts, align 8
  ; Sizes that are marked, and symbols, are no part of what is kept.
  %are.plain = call i1 @is_plain(ptr %c, ptr %shape, ptr %tuples)
  br i1 %are.plain, label %look, label %unknown
look:
  %class = call ptr @class_of(ptr %c, ptr %subscript)
  %are.several = icmp eq ptr %class, %tuples
  br i1 %are.several, label %count.them, label %alone
alone:
  %only.at = getelementptr ptr, ptr %parts, i64 1
  %only = call i64 @item_parts(ptr %c, ptr %subscript, ptr %only.at)
  %not.only = icmp slt i64 %only, 0
  %only.all = add i64 %only, 1
  br i1 %not.only, label %unknown, label %only.done
only.done:
  ret i64 %only.all
count.them:
  %count = call i64 @size_of(ptr %c, ptr %subscript)
  %are.few = icmp sle i64 %count, 8
  br i1 %are.few, label %next, label %unknown
next:
  %n = phi i64 [ 0, %count.them ], [ %after, %put ]
  %made = phi i64 [ 1, %count.them ], [ %made.more, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %x = call ptr %item(ptr %subscript, i64 %n)
  %at = getelementptr ptr, ptr %parts, i64 %made
  %found = call i64 @item_parts(ptr %c, ptr %x, ptr %at)
  %not.found = icmp slt i64 %found, 0
  br i1 %not.found, label %unknown, label %put
put:
  %made.more = add i64 %made, %found
  %after = add i64 %n, 1
  br label %next
done:
  ret i64 %made
unknown:
  ret i64 -1
}

; Owned: what one of the calls gives of a tensor; null with an error.
define internal ptr @one_called(ptr %c, ptr %x, ptr %call) {
entry:
  %passed = alloca [4 x ptr], align 8
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %item = call ptr @field(ptr %c, i64 21)
  %inputs = call ptr %new(i64 1)
  %no.inputs = icmp eq ptr %inputs, null
  br i1 %no.inputs, label %failed, label %fill
fill:
  call void @hold(ptr %c, ptr %x)
  %was.set = call i32 %set(ptr %inputs, i64 0, ptr %x)
  %op = call ptr %item(ptr %call, i64 0)
  %attributes = call ptr %item(ptr %call, i64 1)
  %form = call ptr %item(ptr %call, i64 2)
  %second.at = getelementptr ptr, ptr %passed, i64 1
  %third.at = getelementptr ptr, ptr %passed, i64 2
  %fourth.at = getelementptr ptr, ptr %passed, i64 3
  store ptr %op, ptr %passed, align 8
  store ptr %inputs, ptr %second.at, align 8
  store ptr %attributes, ptr %third.at, align 8
  store ptr %form, ptr %fourth.at, align 8
  %made = call ptr @bound(ptr %c, ptr %passed)
  call void @drop(ptr %c, ptr %inputs)
  ret ptr %made
failed:
  ret ptr null
}

; Owned: what known calls give of a tensor, one behind the other; null with an error.
define internal ptr @all_called(ptr %c, ptr %x, ptr %calls) {
entry:
  %item = call ptr @field(ptr %c, i64 21)
  %count = call i64 @size_of(ptr %c, ptr %calls)
  call void @hold(ptr %c, ptr %x)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %one ]
  %of = phi ptr [ %x, %entry ], [ %made, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %call = call ptr %item(ptr %calls, i64 %n)
  %made = call ptr @one_called(ptr %c, ptr %of, ptr %call)
  call void @drop(ptr %c, ptr %of)
  %after = add i64 %n, 1
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %failed, label %next
done:
  ret ptr %of
failed:
  ret ptr null
}

; A function of CPython's (METH_FASTCALL): self is the bytes of %Binding, its arguments are known
; calls, a tensor, and a subscript.
define ptr @call_known(ptr %self, ptr %arguments, i64 %given) {
entry:
  %parts = alloca [33 x ptr], align 8
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %of = load ptr, ptr %arguments, align 8
  %x.at = getelementptr ptr, ptr %arguments, i64 1
  %x = load ptr, ptr %x.at, align 8
  %subscript.at = getelementptr ptr, ptr %arguments, i64 2
  %subscript = load ptr, ptr %subscript.at, align 8
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.tensor = call i1 @is_tensor(ptr %c, ptr %class)
  br i1 %is.tensor, label %look, label %slowly
look:
  %type = call ptr @slot(ptr %c, i32 48, ptr %x)
  %count = call i64 @subscript_parts(ptr %c, ptr %type, ptr %subscript, ptr %parts)
  %is.unknown = icmp slt i64 %count, 0
  br i1 %is.unknown, label %slowly, label %find
find:
  %known = call ptr @slot(ptr %c, i32 63, ptr %of)
  %calls = call ptr @known_of(ptr %c, ptr %known, ptr %parts, i64 %count)
  %is.new = icmp eq ptr %calls, null
  br i1 %is.new, label %forget, label %call
call:
  %made = call ptr @all_called(ptr %c, ptr %x, ptr %calls)
  call void @drop(ptr %c, ptr %calls)
  ret ptr %made
forget:
  call void @forget_error(ptr %c)
  br label %slowly
slowly:
  %slow = call ptr @field(ptr %c, i64 45)
  %slow.made = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %slow.made
}
