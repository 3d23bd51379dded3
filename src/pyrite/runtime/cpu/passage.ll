; By what a passage of calls is known: see `pyrite.backend.fusion.passage`.
;
; It stands behind `recording.ll`, whose table it has.

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
