; What machine code does with objects of CPython, for the other texts here that have a `%c`: this one
; stands before each.
;
; %c is a table of words: first the functions of CPython's C API in the order of `native_call.py`, then
; objects, and last how many bytes after the beginning of an object its slots are.
;
; An object of a list, a dict or a slot is borrowed unless it says "owned".

; ---- CPython's functions ----

define internal ptr @field(ptr %c, i64 %n) {
  %at = getelementptr ptr, ptr %c, i64 %n
  %value = load ptr, ptr %at, align 8
  ret ptr %value
}

define internal void @hold(ptr %c, ptr %object) {
  %f = load ptr, ptr %c, align 8
  call void %f(ptr %object)
  ret void
}

define internal void @drop(ptr %c, ptr %object) {
  %at = getelementptr ptr, ptr %c, i64 1
  %f = load ptr, ptr %at, align 8
  call void %f(ptr %object)
  ret void
}

define internal ptr @bytes_of(ptr %c, ptr %object) {
  %at = getelementptr ptr, ptr %c, i64 2
  %f = load ptr, ptr %at, align 8
  %bytes = call ptr %f(ptr %object)
  ret ptr %bytes
}

define internal ptr @item(ptr %c, ptr %list, i64 %n) {
  %at = getelementptr ptr, ptr %c, i64 4
  %f = load ptr, ptr %at, align 8
  %item = call ptr %f(ptr %list, i64 %n)
  ret ptr %item
}

; Owned.
define internal ptr @attribute(ptr %c, ptr %object, ptr %name) {
  %at = getelementptr ptr, ptr %c, i64 7
  %f = load ptr, ptr %at, align 8
  %value = call ptr %f(ptr %object, ptr %name)
  ret ptr %value
}

define internal i64 @size_of(ptr %c, ptr %object) {
  %at = getelementptr ptr, ptr %c, i64 9
  %f = load ptr, ptr %at, align 8
  %size = call i64 %f(ptr %object)
  ret i64 %size
}

; Owned.
define internal ptr @called(ptr %c, ptr %function, ptr %arguments, i64 %count) {
  %at = getelementptr ptr, ptr %c, i64 11
  %f = load ptr, ptr %at, align 8
  %result = call ptr %f(ptr %function, ptr %arguments, i64 %count, ptr null)
  ret ptr %result
}

; Owned: a new object, its slots empty.
define internal ptr @made(ptr %c, ptr %class) {
  %at = getelementptr ptr, ptr %c, i64 12
  %f = load ptr, ptr %at, align 8
  %object = call ptr %f(ptr %class, i64 0)
  ret ptr %object
}

define internal void @forget_error(ptr %c) {
  %at = getelementptr ptr, ptr %c, i64 13
  %f = load ptr, ptr %at, align 8
  call void %f()
  ret void
}

define internal i64 @integer_of(ptr %c, ptr %object) {
  %at = getelementptr ptr, ptr %c, i64 15
  %f = load ptr, ptr %at, align 8
  %value = call i64 %f(ptr %object)
  ret i64 %value
}

define internal double @double_of(ptr %c, ptr %object) {
  %at = getelementptr ptr, ptr %c, i64 17
  %f = load ptr, ptr %at, align 8
  %value = call double %f(ptr %object)
  ret double %value
}

; Drop some of several objects.
define internal void @drop_all(ptr %c, ptr %objects, i64 %first, i64 %end) {
entry:
  br label %next
next:
  %n = phi i64 [ %first, %entry ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %end
  br i1 %is.more, label %one, label %done
one:
  %at = getelementptr ptr, ptr %objects, i64 %n
  %object = load ptr, ptr %at, align 8
  call void @drop(ptr %c, ptr %object)
  %after = add i64 %n, 1
  br label %next
done:
  ret void
}

; ---- slots ----

define internal ptr @class_of(ptr %c, ptr %object) {
  %class = call ptr @slot(ptr %c, i32 CLASS_FIELD, ptr %object)
  ret ptr %class
}

; Read the slot whose offset stands in a field of the table, counted in words.
define internal ptr @slot(ptr %c, i32 %field, ptr %object) {
  %at = call ptr @slot_at(ptr %c, i32 %field, ptr %object)
  %value = load ptr, ptr %at, align 8
  ret ptr %value
}

define internal ptr @slot_at(ptr %c, i32 %field, ptr %object) {
  %field.at = getelementptr i64, ptr %c, i32 %field
  %offset = load i64, ptr %field.at, align 8
  %at = getelementptr i8, ptr %object, i64 %offset
  ret ptr %at
}

; Put a value into an empty slot.
define internal void @put(ptr %c, i32 %field, ptr %object, ptr %value) {
  %at = call ptr @slot_at(ptr %c, i32 %field, ptr %object)
  call void @hold(ptr %c, ptr %value)
  store ptr %value, ptr %at, align 8
  ret void
}

; Put an owned value into a slot, in the place of another.
define internal void @replace(ptr %c, i32 %field, ptr %object, ptr %value) {
entry:
  %at = call ptr @slot_at(ptr %c, i32 %field, ptr %object)
  %before = load ptr, ptr %at, align 8
  store ptr %value, ptr %at, align 8
  %was.empty = icmp eq ptr %before, null
  br i1 %was.empty, label %done, label %full
full:
  call void @drop(ptr %c, ptr %before)
  br label %done
done:
  ret void
}
