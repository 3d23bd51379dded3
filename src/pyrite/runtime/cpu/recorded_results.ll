; The results of a call that is recorded: their objects, and what is noted of them.
;
; It stands behind `recording.ll`, whose table it has.

; Add numbers and results behind those of the calls; false with an error.
define internal i1 @noted(ptr %c, ptr %calls, ptr %numbers, ptr %refs, i64 %results) {
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
  %ref.at = getelementptr ptr, ptr %refs, i64 %m
  %ref = load ptr, ptr %ref.at, align 8
  %not.noted = call i32 %append(ptr %to.results, ptr %ref)
  %is.not = icmp ne i32 %not.noted, 0
  %m.after = add i64 %m, 1
  br i1 %is.not, label %no, label %next.result
yes:
  ret i1 true
no:
  ret i1 false
}

; maybe an error, where there is no memory, and then there are none.
define internal i1 @one_made(ptr %c, ptr %objects, i64 %n) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %weak = call ptr @field(ptr %c, i64 24)
  %lazy = call ptr @field(ptr %c, i64 29)
  %made = call ptr @made(ptr %c, ptr %lazy)
  %no.lazy = icmp eq ptr %made, null
  br i1 %no.lazy, label %no, label %make.more
make.more:
  %ref = call ptr %weak(ptr %made, ptr null)
  %place = call ptr %new(i64 2)
  %no.ref = icmp eq ptr %ref, null
  %no.place = icmp eq ptr %place, null
  %lacks = or i1 %no.ref, %no.place
  br i1 %lacks, label %undo, label %put
put:
  %made.at = getelementptr %Made, ptr %objects, i64 0, i32 0, i64 %n
  %ref.at = getelementptr %Made, ptr %objects, i64 0, i32 1, i64 %n
  %place.at = getelementptr %Made, ptr %objects, i64 0, i32 2, i64 %n
  store ptr %made, ptr %made.at, align 8
  store ptr %ref, ptr %ref.at, align 8
  store ptr %place, ptr %place.at, align 8
  ret i1 true
undo:
  call void @drop(ptr %c, ptr %ref)
  call void @drop(ptr %c, ptr %place)
  call void @drop(ptr %c, ptr %made)
  br label %no
no:
  ret i1 false
}

; Drop the objects of results from one on.
define internal void @drop_made(ptr %c, ptr %objects, i64 %first, i64 %count) {
  %refs = getelementptr %Made, ptr %objects, i64 0, i32 1
  %places = getelementptr %Made, ptr %objects, i64 0, i32 2
  call void @drop_all(ptr %c, ptr %refs, i64 %first, i64 %count)
  call void @drop_all(ptr %c, ptr %places, i64 %first, i64 %count)
  call void @drop_all(ptr %c, ptr %objects, i64 %first, i64 %count)
  ret void
}

; handle to a tuple; the reference is kept, to be noted.
define internal void @filled(ptr %c, ptr %objects, i64 %n, ptr %calls, ptr %type, ptr %number, ptr %out) {
  %none = call ptr @field(ptr %c, i64 26)
  %set = call ptr @field(ptr %c, i64 6)
  %made.at = getelementptr %Made, ptr %objects, i64 0, i32 0, i64 %n
  %place.at = getelementptr %Made, ptr %objects, i64 0, i32 2, i64 %n
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
  %refs = getelementptr %Made, ptr %objects, i64 0, i32 1
  %is.noted = call i1 @noted(ptr %c, ptr %calls, ptr %numbers, ptr %refs, i64 %count)
  call void @hold(ptr %c, ptr %call)
  call void @replace(ptr %c, i32 41, ptr %calls, ptr %call)
  call void @drop_all(ptr %c, ptr %refs, i64 0, i64 %count)
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
  %refs = getelementptr %Made, ptr %objects, i64 0, i32 1
  %is.noted = call i1 @noted(ptr %c, ptr %calls, ptr %numbers, ptr %refs, i64 1)
  call void @hold(ptr %c, ptr %call)
  call void @replace(ptr %c, i32 41, ptr %calls, ptr %call)
  call void @drop_all(ptr %c, ptr %refs, i64 0, i64 1)
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
