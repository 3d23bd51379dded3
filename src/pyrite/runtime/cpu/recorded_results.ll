; The results of a call that is recorded: their objects, and what is noted of them.
;
; It stands behind `recording.ll`, whose table it has.

; Add numbers and results behind those of the calls; false with an error.
define internal i1 @noted(ptr %c, ptr %calls, ptr %numbers, ptr %made, i64 %results) {
entry:
  %append = call ptr @field(ptr %c, i64 16)
  %to.numbers = call ptr @slot(ptr %c, i32 46, ptr %calls)
  %to.results = call ptr @slot(ptr %c, i32 47, ptr %calls)
  %count = load i64, ptr %numbers, align 8
  br label %next
next:
  %n = phi i64 [ 1, %entry ], [ %after, %one ]
  %is.more = icmp sle i64 %n, %count
  br i1 %is.more, label %one, label %next.result
one:
  %number.at = getelementptr ptr, ptr %numbers, i64 %n
  %number = load ptr, ptr %number.at, align 8
  %not.added = call i32 %append(ptr %to.numbers, ptr %number)
  %failed = icmp ne i32 %not.added, 0
  %after = add i64 %n, 1
  br i1 %failed, label %no, label %next
next.result:
  %m = phi i64 [ 0, %next ], [ %m.after, %result ]
  %are.more = icmp slt i64 %m, %results
  br i1 %are.more, label %result, label %yes
result:
  %result.at = getelementptr ptr, ptr %made, i64 %m
  %its = load ptr, ptr %result.at, align 8
  %not.noted = call i32 %append(ptr %to.results, ptr %its)
  %is.not = icmp ne i32 %not.noted, 0
  %m.after = add i64 %m, 1
  br i1 %is.not, label %no, label %next.result
yes:
  ret i1 true
no:
  ret i1 false
}

; Make objects of one result: put down a lazy handle and a place; false, and maybe an error, where there
; is no memory, and then there are none.
define internal i1 @one_made(ptr %c, ptr %objects, i64 %n) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %lazy = call ptr @field(ptr %c, i64 29)
  %made = call ptr @made(ptr %c, ptr %lazy)
  %no.lazy = icmp eq ptr %made, null
  br i1 %no.lazy, label %no, label %make.more
make.more:
  %place = call ptr %new(i64 2)
  %no.place = icmp eq ptr %place, null
  br i1 %no.place, label %undo, label %put
put:
  %made.at = getelementptr %Made, ptr %objects, i64 0, i32 0, i64 %n
  %place.at = getelementptr %Made, ptr %objects, i64 0, i32 1, i64 %n
  store ptr %made, ptr %made.at, align 8
  store ptr %place, ptr %place.at, align 8
  ret i1 true
undo:
  call void @drop(ptr %c, ptr %made)
  br label %no
no:
  ret i1 false
}

; Drop the objects of results from one on.
define internal void @drop_made(ptr %c, ptr %objects, i64 %first, i64 %count) {
  %places = getelementptr %Made, ptr %objects, i64 0, i32 1
  call void @drop_all(ptr %c, ptr %places, i64 %first, i64 %count)
  call void @drop_all(ptr %c, ptr %objects, i64 %first, i64 %count)
  ret void
}

; Fill the objects of one result, the given number among all of its calls, and give them away: the
; handle to a tuple.
define internal void @filled(ptr %c, ptr %objects, i64 %n, ptr %calls, ptr %type, ptr %number, ptr %out) {
  %none = call ptr @field(ptr %c, i64 26)
  %set = call ptr @field(ptr %c, i64 6)
  %made.at = getelementptr %Made, ptr %objects, i64 0, i32 0, i64 %n
  %place.at = getelementptr %Made, ptr %objects, i64 0, i32 1, i64 %n
  %made = load ptr, ptr %made.at, align 8
  %place = load ptr, ptr %place.at, align 8
  call void @put(ptr %c, i32 36, ptr %made, ptr %type)
  call void @put(ptr %c, i32 38, ptr %made, ptr %none)
  call void @hold(ptr %c, ptr %calls)
  %first = call i32 %set(ptr %place, i64 0, ptr %calls)
  call void @hold(ptr %c, ptr %number)
  %second = call i32 %set(ptr %place, i64 1, ptr %number)
  call void @replace(ptr %c, i32 37, ptr %made, ptr %place)
  %its = call i32 %set(ptr %out, i64 %n, ptr %made)
  ret void
}

; Owned: numbers of the results of a call behind the first, put down; false, and maybe an error, where
; there is no memory, and then there are none.
define internal i1 @numbered(ptr %c, ptr %first, i64 %count, ptr %numbers) {
entry:
  %integer = call ptr @field(ptr %c, i64 22)
  %begin = call i64 @integer_of(ptr %c, ptr %first)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %value = add i64 %begin, %n
  %number = call ptr %integer(i64 %value)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %undo, label %put
put:
  %number.at = getelementptr ptr, ptr %numbers, i64 %n
  store ptr %number, ptr %number.at, align 8
  %after = add i64 %n, 1
  br label %next
undo:
  call void @drop_all(ptr %c, ptr %numbers, i64 0, i64 %n)
  ret i1 false
done:
  ret i1 true
}

; Whether calls may be added to behind the last of them that was looked at.
define internal i1 @is_still(ptr %c, ptr %calls, ptr %at) {
  %is.open = call i1 @is_open(ptr %c, ptr %calls)
  %now = call ptr @slot(ptr %c, i32 41, ptr %calls)
  %is.same = icmp eq ptr %now, %at
  %may.add = and i1 %is.open, %is.same
  ret i1 %may.add
}

; Owned: the tuple of the results of a call of several, which is added behind the last one.  Null with an
; error, or, where Python has to look, None, which is borrowed then, and nothing was added.
define internal ptr @several(ptr %c, ptr %calls, ptr %at, ptr %call, ptr %numbers, ptr %objects) {
entry:
  %numbered = alloca [16 x ptr], align 8
  %none = call ptr @field(ptr %c, i64 26)
  %new = call ptr @field(ptr %c, i64 5)
  %item = call ptr @field(ptr %c, i64 20)
  %types = call ptr @slot(ptr %c, i32 53, ptr %call)
  %first = call ptr @slot(ptr %c, i32 52, ptr %at)
  %count = call i64 @size_of(ptr %c, ptr %types)
  %behind = sub i64 %count, 2
  %are.few = icmp ult i64 %behind, 15
  br i1 %are.few, label %number.them, label %unknown
number.them:
  %are.numbered = call i1 @numbered(ptr %c, ptr %first, i64 %count, ptr %numbered)
  br i1 %are.numbered, label %make.out, label %unknown
make.out:
  %out = call ptr %new(i64 %count)
  %no.out = icmp eq ptr %out, null
  br i1 %no.out, label %undo.numbers, label %next
next:
  ; The first one is there.
  %n = phi i64 [ 1, %make.out ], [ %after, %made ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %ask.again
one:
  %is.made = call i1 @one_made(ptr %c, ptr %objects, i64 %n)
  br i1 %is.made, label %made, label %undo
made:
  %after = add i64 %n, 1
  br label %next
ask.again:
  %is.still = call i1 @is_still(ptr %c, ptr %calls, ptr %at)
  br i1 %is.still, label %fill, label %undo
fill:
  %m = phi i64 [ 0, %ask.again ], [ %m.after, %fill.one ]
  %are.more = icmp slt i64 %m, %count
  br i1 %are.more, label %fill.one, label %note
fill.one:
  %type = call ptr %item(ptr %types, i64 %m)
  %number.at = getelementptr ptr, ptr %numbered, i64 %m
  %number = load ptr, ptr %number.at, align 8
  call void @filled(ptr %c, ptr %objects, i64 %m, ptr %calls, ptr %type, ptr %number, ptr %out)
  %m.after = add i64 %m, 1
  br label %fill
note:
  %is.noted = call i1 @noted(ptr %c, ptr %calls, ptr %numbers, ptr %objects, i64 %count)
  call void @hold(ptr %c, ptr %call)
  call void @replace(ptr %c, i32 41, ptr %calls, ptr %call)
  call void @drop_all(ptr %c, ptr %numbered, i64 0, i64 %count)
  br i1 %is.noted, label %done, label %failed
done:
  ret ptr %out
failed:
  call void @drop(ptr %c, ptr %out)
  ret ptr null
undo:
  call void @drop_made(ptr %c, ptr %objects, i64 1, i64 %n)
  call void @drop(ptr %c, ptr %out)
  br label %undo.numbers
undo.numbers:
  call void @drop_all(ptr %c, ptr %numbered, i64 0, i64 %count)
  br label %unknown
unknown:
  ret ptr %none
}

; Owned: the tuple of the result of a call, which is added behind the last one; as `several`.
define internal ptr @single(ptr %c, ptr %calls, ptr %at, ptr %call, ptr %numbers, ptr %objects) {
entry:
  %none = call ptr @field(ptr %c, i64 26)
  %new = call ptr @field(ptr %c, i64 5)
  %out = call ptr %new(i64 1)
  %no.out = icmp eq ptr %out, null
  br i1 %no.out, label %unknown, label %ask.again
ask.again:
  %is.still = call i1 @is_still(ptr %c, ptr %calls, ptr %at)
  br i1 %is.still, label %fill, label %undo
fill:
  %type = call ptr @slot(ptr %c, i32 51, ptr %call)
  %number = call ptr @slot(ptr %c, i32 52, ptr %at)
  call void @filled(ptr %c, ptr %objects, i64 0, ptr %calls, ptr %type, ptr %number, ptr %out)
  %is.noted = call i1 @noted(ptr %c, ptr %calls, ptr %numbers, ptr %objects, i64 1)
  call void @hold(ptr %c, ptr %call)
  call void @replace(ptr %c, i32 41, ptr %calls, ptr %call)
  br i1 %is.noted, label %done, label %failed
done:
  ret ptr %out
failed:
  call void @drop(ptr %c, ptr %out)
  ret ptr null
undo:
  call void @drop(ptr %c, ptr %out)
  br label %unknown
unknown:
  ret ptr %none
}
