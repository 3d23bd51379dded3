; What is done with many objects at once: `Column` and `distinct` of `pyrite.columns`.
;
; Each is a function of CPython's (METH_FASTCALL): self is the bytes of %Columns, the first argument a
; tuple or a list.  Where anything is not as in most calls nothing is done, and the Python that does the
; same is called.  Between two looks at the objects no Python runs, but where `write` lets go of one.
;
; Functions of objects stand in `objects.ll`.

%Columns = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ptr, ; 20 PyTuple_GetItem
  ptr, ; 21 PyLong_FromLongLong
  ; Objects.
  ptr, ; 22 tuple
  ptr, ; 23 list
  ptr, ; 24 None
  ptr, ; 25 the Python that does the same
  ptr, ; 26 the class
  ; Bytes from the beginning of an object to its slots.
  i64, ; 27 any object: its class
  i64  ; 28 one of the class: the slot
}

; An item of a tuple or a list.
define internal ptr @item_of(ptr %c, ptr %objects, i1 %is.tuple, i64 %n) {
entry:
  br i1 %is.tuple, label %tuple, label %list
tuple:
  %get = call ptr @field(ptr %c, i64 20)
  %of.tuple = call ptr %get(ptr %objects, i64 %n)
  ret ptr %of.tuple
list:
  %of.list = call ptr @item(ptr %c, ptr %objects, i64 %n)
  ret ptr %of.list
}

; How many objects there are; -1 where they are in neither a tuple nor a list.
define internal i64 @count_of(ptr %c, ptr %objects) {
entry:
  %tuples = call ptr @field(ptr %c, i64 22)
  %lists = call ptr @field(ptr %c, i64 23)
  %class = call ptr @class_of(ptr %c, ptr %objects)
  %is.tuple = icmp eq ptr %class, %tuples
  %is.list = icmp eq ptr %class, %lists
  %is.known = or i1 %is.tuple, %is.list
  br i1 %is.known, label %known, label %unknown
known:
  %count = call i64 @size_of(ptr %c, ptr %objects)
  ret i64 %count
unknown:
  ret i64 -1
}

define internal i1 @is_tuple(ptr %c, ptr %objects) {
  %tuples = call ptr @field(ptr %c, i64 22)
  %class = call ptr @class_of(ptr %c, ptr %objects)
  %is.tuple = icmp eq ptr %class, %tuples
  ret i1 %is.tuple
}

; Owned: what the Python that does the same returns.
define internal ptr @slowly(ptr %c, ptr %arguments, i64 %given) {
  %slow = call ptr @field(ptr %c, i64 25)
  %result = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %result
}

; The list of what objects hold in the slot.
define ptr @read(ptr %self, ptr %arguments, i64 %given) {
entry:
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %objects = load ptr, ptr %arguments, align 8
  %cls = call ptr @field(ptr %c, i64 26)
  %new = call ptr @field(ptr %c, i64 10)
  %set = call ptr @field(ptr %c, i64 18)
  %count = call i64 @count_of(ptr %c, ptr %objects)
  %is.known = icmp sge i64 %count, 0
  br i1 %is.known, label %make, label %slow
make:
  %made = call ptr %new(i64 %count)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %ask
ask:
  %tuple = call i1 @is_tuple(ptr %c, ptr %objects)
  br label %next
next:
  %n = phi i64 [ 0, %ask ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %one = call ptr @item_of(ptr %c, ptr %objects, i1 %tuple, i64 %n)
  %is.gone = icmp eq ptr %one, null
  br i1 %is.gone, label %undo, label %class
class:
  %of = call ptr @class_of(ptr %c, ptr %one)
  %is.usual = icmp eq ptr %of, %cls
  br i1 %is.usual, label %get, label %undo
get:
  %held = call ptr @slot(ptr %c, i32 28, ptr %one)
  %is.unset = icmp eq ptr %held, null
  br i1 %is.unset, label %undo, label %put
put:
  call void @hold(ptr %c, ptr %held)
  %was.set = call i32 %set(ptr %made, i64 %n, ptr %held)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %made
undo:
  call void @drop(ptr %c, ptr %made)
  call void @forget_error(ptr %c)
  br label %slow
slow:
  %by.python = call ptr @slowly(ptr %c, ptr %arguments, i64 %given)
  ret ptr %by.python
failed:
  ret ptr null
}

; Whether there are as many objects as values, all of the class.
define internal i1 @may_write(ptr %c, ptr %objects, ptr %values) {
entry:
  %cls = call ptr @field(ptr %c, i64 26)
  %count = call i64 @count_of(ptr %c, ptr %objects)
  %given = call i64 @count_of(ptr %c, ptr %values)
  %is.known = icmp sge i64 %count, 0
  %is.same = icmp eq i64 %count, %given
  %may = and i1 %is.known, %is.same
  br i1 %may, label %ask, label %no
ask:
  %tuple = call i1 @is_tuple(ptr %c, ptr %objects)
  br label %next
next:
  %n = phi i64 [ 0, %ask ], [ %after, %class ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %yes
look:
  %one = call ptr @item_of(ptr %c, ptr %objects, i1 %tuple, i64 %n)
  %is.gone = icmp eq ptr %one, null
  br i1 %is.gone, label %no, label %class
class:
  %of = call ptr @class_of(ptr %c, ptr %one)
  %is.usual = icmp eq ptr %of, %cls
  %after = add i64 %n, 1
  br i1 %is.usual, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Put a value of a second list into the slot of each object of a first.
define ptr @write(ptr %self, ptr %arguments, i64 %given) {
entry:
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %objects = load ptr, ptr %arguments, align 8
  %values.at = getelementptr ptr, ptr %arguments, i64 1
  %values = load ptr, ptr %values.at, align 8
  %may = call i1 @may_write(ptr %c, ptr %objects, ptr %values)
  br i1 %may, label %ask, label %slow
ask:
  %count = call i64 @count_of(ptr %c, ptr %objects)
  %tuple = call i1 @is_tuple(ptr %c, ptr %objects)
  %values.tuple = call i1 @is_tuple(ptr %c, ptr %values)
  br label %next
next:
  %n = phi i64 [ 0, %ask ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  ; What is let go of may run Python, which may take something out of the lists.
  %one = call ptr @item_of(ptr %c, ptr %objects, i1 %tuple, i64 %n)
  %value = call ptr @item_of(ptr %c, ptr %values, i1 %values.tuple, i64 %n)
  %no.one = icmp eq ptr %one, null
  %no.value = icmp eq ptr %value, null
  %is.gone = or i1 %no.one, %no.value
  br i1 %is.gone, label %failed, label %put
put:
  call void @hold(ptr %c, ptr %one)
  call void @hold(ptr %c, ptr %value)
  call void @replace(ptr %c, i32 28, ptr %one, ptr %value)
  call void @drop(ptr %c, ptr %one)
  %after = add i64 %n, 1
  br label %next
done:
  %none = call ptr @field(ptr %c, i64 24)
  call void @hold(ptr %c, ptr %none)
  ret ptr %none
slow:
  call void @forget_error(ptr %c)
  %by.python = call ptr @slowly(ptr %c, ptr %arguments, i64 %given)
  ret ptr %by.python
failed:
  ret ptr null
}

; The place of an object among some; their count where it is none of them.
define internal i64 @place_among(ptr %known, i64 %count, ptr %one) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %go.on ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %found
look:
  %at = getelementptr ptr, ptr %known, i64 %n
  %other = load ptr, ptr %at, align 8
  %is.it = icmp eq ptr %other, %one
  br i1 %is.it, label %found, label %go.on
go.on:
  %after = add i64 %n, 1
  br label %next
found:
  ret i64 %n
}

; Owned: the list of some objects; null with an error.
define internal ptr @listed(ptr %c, ptr %known, i64 %count) {
entry:
  %new = call ptr @field(ptr %c, i64 10)
  %set = call ptr @field(ptr %c, i64 18)
  %made = call ptr %new(i64 %count)
  %none = icmp eq ptr %made, null
  br i1 %none, label %done, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %put, label %done
put:
  %at = getelementptr ptr, ptr %known, i64 %n
  %one = load ptr, ptr %at, align 8
  call void @hold(ptr %c, ptr %one)
  %was.set = call i32 %set(ptr %made, i64 %n, ptr %one)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %made
}

; Owned: a tuple of two owned objects, which are let go of with an error.
define internal ptr @pair(ptr %c, ptr %first, ptr %second) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %made = call ptr %new(i64 2)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %fill
fill:
  %one = call i32 %set(ptr %made, i64 0, ptr %first)
  %two = call i32 %set(ptr %made, i64 1, ptr %second)
  ret ptr %made
failed:
  call void @drop(ptr %c, ptr %first)
  call void @drop(ptr %c, ptr %second)
  ret ptr null
}

; The different ones of some objects, and the number of each among these.
define ptr @distinct(ptr %self, ptr %arguments, i64 %given) {
entry:
  %known = alloca [64 x ptr], align 8
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %objects = load ptr, ptr %arguments, align 8
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %integer = call ptr @field(ptr %c, i64 21)
  %count = call i64 @count_of(ptr %c, ptr %objects)
  %is.known = icmp sge i64 %count, 0
  br i1 %is.known, label %make, label %slow
make:
  %places = call ptr %new(i64 %count)
  %none = icmp eq ptr %places, null
  br i1 %none, label %failed, label %ask
ask:
  %tuple = call i1 @is_tuple(ptr %c, ptr %objects)
  br label %next
next:
  %n = phi i64 [ 0, %ask ], [ %after, %put ]
  %many = phi i64 [ 0, %ask ], [ %now, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %one = call ptr @item_of(ptr %c, ptr %objects, i1 %tuple, i64 %n)
  %is.gone = icmp eq ptr %one, null
  br i1 %is.gone, label %undo, label %find
find:
  %place = call i64 @place_among(ptr %known, i64 %many, ptr %one)
  %is.new = icmp eq i64 %place, %many
  br i1 %is.new, label %add, label %number
add:
  %is.room = icmp slt i64 %many, 64
  br i1 %is.room, label %note, label %undo
note:
  %at = getelementptr ptr, ptr %known, i64 %many
  store ptr %one, ptr %at, align 8
  %more = add i64 %many, 1
  br label %number
number:
  %now = phi i64 [ %many, %find ], [ %more, %note ]
  %made = call ptr %integer(i64 %place)
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %lost, label %put
put:
  %was.set = call i32 %set(ptr %places, i64 %n, ptr %made)
  %after = add i64 %n, 1
  br label %next
done:
  %list = call ptr @listed(ptr %c, ptr %known, i64 %many)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %lost, label %both
both:
  %result = call ptr @pair(ptr %c, ptr %list, ptr %places)
  ret ptr %result
undo:
  call void @drop(ptr %c, ptr %places)
  call void @forget_error(ptr %c)
  br label %slow
slow:
  %by.python = call ptr @slowly(ptr %c, ptr %arguments, i64 %given)
  ret ptr %by.python
lost:
  call void @drop(ptr %c, ptr %places)
  br label %failed
failed:
  ret ptr null
}
