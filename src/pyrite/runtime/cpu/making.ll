; Many objects of a class, given what their slots hold: what `Maker` does by Python.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Making, its arguments are
; how many objects there are, and for each slot a tuple or a list of what they hold there, or what all
; hold.  It returns a list of them.
;
; Functions of objects stand in `objects.ll`.

%Making = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ptr, ; 20 PyTuple_GetItem
  ; Objects.
  ptr, ; 21 tuple
  ptr, ; 22 list
  ptr, ; 23 the class
  ; Bytes from the beginning of an object to its slots.
  i64, ; 24 any object: its class
  i64  ; 25 one of the class: its first slot; the others follow
}

; What one of the objects holds in a slot; null with an error.
define internal ptr @held(ptr %c, ptr %column, i64 %n) {
entry:
  %tuples = call ptr @field(ptr %c, i64 21)
  %lists = call ptr @field(ptr %c, i64 22)
  %class = call ptr @class_of(ptr %c, ptr %column)
  %is.tuple = icmp eq ptr %class, %tuples
  br i1 %is.tuple, label %tuple, label %other
tuple:
  %get = call ptr @field(ptr %c, i64 20)
  %of.tuple = call ptr %get(ptr %column, i64 %n)
  ret ptr %of.tuple
other:
  %is.list = icmp eq ptr %class, %lists
  br i1 %is.list, label %list, label %same
list:
  %of.list = call ptr @item(ptr %c, ptr %column, i64 %n)
  ret ptr %of.list
same:
  ret ptr %column
}

; Owned: one of the objects; null with an error.
define internal ptr @one(ptr %c, ptr %columns, i64 %slots, i64 %n) {
entry:
  %class = call ptr @field(ptr %c, i64 23)
  %one = call ptr @made(ptr %c, ptr %class)
  %no.one = icmp eq ptr %one, null
  br i1 %no.one, label %failed, label %next
next:
  %s = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %s, %slots
  br i1 %is.more, label %look, label %done
look:
  %column.at = getelementptr ptr, ptr %columns, i64 %s
  %column = load ptr, ptr %column.at, align 8
  %held = call ptr @held(ptr %c, ptr %column, i64 %n)
  %is.missing = icmp eq ptr %held, null
  br i1 %is.missing, label %lost, label %put
put:
  %word = add i64 %s, 25
  %field = trunc i64 %word to i32
  call void @put(ptr %c, i32 %field, ptr %one, ptr %held)
  %after = add i64 %s, 1
  br label %next
done:
  ret ptr %one
lost:
  call void @drop(ptr %c, ptr %one)
  br label %failed
failed:
  ret ptr null
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %number = load ptr, ptr %arguments, align 8
  %columns = getelementptr ptr, ptr %arguments, i64 1
  %slots = sub i64 %given, 1
  %new = call ptr @field(ptr %c, i64 10)
  %set = call ptr @field(ptr %c, i64 18)
  %count = call i64 @integer_of(ptr %c, ptr %number)
  %made = call ptr %new(i64 %count)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %make, label %done
make:
  %one = call ptr @one(ptr %c, ptr %columns, i64 %slots, i64 %n)
  %not.made = icmp eq ptr %one, null
  br i1 %not.made, label %lost, label %put
put:
  %was.set = call i32 %set(ptr %made, i64 %n, ptr %one)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %made
lost:
  call void @drop(ptr %c, ptr %made)
  br label %failed
failed:
  ret ptr null
}
