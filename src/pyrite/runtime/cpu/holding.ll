; Which objects of a list somebody else holds: `held` and `held_as` of `pyrite.columns`.
;
; Each is a function of CPython's (METH_FASTCALL): self is the bytes of %Holding, the first argument a
; list of different objects, and of None.  An object that the list alone holds is counted once, in the
; first word of it: `native_call.py` has found out that it is so.
;
; Functions of objects stand in `objects.ll`.

%Holding = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ptr, ; 20 PyLong_FromLongLong
  ; Objects.
  ptr, ; 21 list
  ptr, ; 22 bytes
  ptr, ; 23 None
  ptr, ; 24 the Python that does the same
  ; Bytes from the beginning of an object to its slots.
  i64  ; 25 any object: its class
}

declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

; Owned: what the Python that does the same returns.
define internal ptr @slowly(ptr %c, ptr %arguments, i64 %given) {
  %slow = call ptr @field(ptr %c, i64 24)
  %result = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %result
}

define internal i1 @is_of(ptr %c, i64 %field, ptr %object) {
  %wanted = call ptr @field(ptr %c, i64 %field)
  %class = call ptr @class_of(ptr %c, ptr %object)
  %is = icmp eq ptr %class, %wanted
  ret i1 %is
}

define internal i1 @is_held(ptr %c, ptr %one) {
  %none = call ptr @field(ptr %c, i64 23)
  %is.some = icmp ne ptr %one, %none
  %count = load i32, ptr %one, align 8
  %is.more = icmp ugt i32 %count, 1
  %is.held = and i1 %is.some, %is.more
  ret i1 %is.held
}

; Objects lie all over memory: with this they are waited for together.
define internal void @ask_for(ptr %c, ptr %objects, i64 %count) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %it = call ptr @item(ptr %c, ptr %objects, i64 %n)
  call void @llvm.prefetch.p0(ptr %it, i32 1, i32 3, i32 1)
  %after = add i64 %n, 1
  br label %next
done:
  ret void
}

; Owned: a list of the objects that somebody holds, whose numbers are appended to another one if there
; is one; null with an error.
define internal ptr @those_held(ptr %c, ptr %objects, i64 %count, ptr %numbers) {
entry:
  %new = call ptr @field(ptr %c, i64 10)
  %append = call ptr @field(ptr %c, i64 16)
  %integer = call ptr @field(ptr %c, i64 20)
  %wants = icmp ne ptr %numbers, null
  %found = call ptr %new(i64 0)
  %no.list = icmp eq ptr %found, null
  br i1 %no.list, label %failed, label %ask
ask:
  call void @ask_for(ptr %c, ptr %objects, i64 %count)
  br label %next
next:
  %n = phi i64 [ 0, %ask ], [ %after, %go.on ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %one = call ptr @item(ptr %c, ptr %objects, i64 %n)
  %is.held = call i1 @is_held(ptr %c, ptr %one)
  br i1 %is.held, label %keep, label %go.on
keep:
  %not.kept = call i32 %append(ptr %found, ptr %one)
  %is.lost = icmp ne i32 %not.kept, 0
  br i1 %is.lost, label %lost, label %number
number:
  br i1 %wants, label %note, label %go.on
note:
  %its = call ptr %integer(i64 %n)
  %no.number = icmp eq ptr %its, null
  br i1 %no.number, label %lost, label %put
put:
  %not.noted = call i32 %append(ptr %numbers, ptr %its)
  call void @drop(ptr %c, ptr %its)
  %is.lost.too = icmp ne i32 %not.noted, 0
  br i1 %is.lost.too, label %lost, label %go.on
go.on:
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %found
lost:
  call void @drop(ptr %c, ptr %found)
  br label %failed
failed:
  ret ptr null
}

; The numbers of the objects that somebody holds, and these objects.
define ptr @held(ptr %self, ptr %arguments, i64 %given) {
entry:
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %objects = load ptr, ptr %arguments, align 8
  %new = call ptr @field(ptr %c, i64 10)
  %new.pair = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %is.list = call i1 @is_of(ptr %c, i64 21, ptr %objects)
  br i1 %is.list, label %make, label %slow
make:
  %count = call i64 @size_of(ptr %c, ptr %objects)
  %numbers = call ptr %new(i64 0)
  %no.numbers = icmp eq ptr %numbers, null
  br i1 %no.numbers, label %failed, label %find
find:
  %found = call ptr @those_held(ptr %c, ptr %objects, i64 %count, ptr %numbers)
  %none = icmp eq ptr %found, null
  br i1 %none, label %lost, label %pair
pair:
  %both = call ptr %new.pair(i64 2)
  %no.pair = icmp eq ptr %both, null
  br i1 %no.pair, label %lost.both, label %fill
fill:
  %one = call i32 %set(ptr %both, i64 0, ptr %numbers)
  %two = call i32 %set(ptr %both, i64 1, ptr %found)
  ret ptr %both
slow:
  %by.python = call ptr @slowly(ptr %c, ptr %arguments, i64 %given)
  ret ptr %by.python
lost.both:
  call void @drop(ptr %c, ptr %found)
  br label %lost
lost:
  call void @drop(ptr %c, ptr %numbers)
  br label %failed
failed:
  ret ptr null
}

; Whether those objects are held whose byte is 1.
define internal i1 @are_as(ptr %c, ptr %objects, i64 %count, ptr %flags) {
entry:
  call void @ask_for(ptr %c, ptr %objects, i64 %count)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %look ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %yes
look:
  %one = call ptr @item(ptr %c, ptr %objects, i64 %n)
  %is.held = call i1 @is_held(ptr %c, ptr %one)
  %flag.at = getelementptr i8, ptr %flags, i64 %n
  %flag = load i8, ptr %flag.at, align 1
  %is.wanted = icmp ne i8 %flag, 0
  %is.same = icmp eq i1 %is.held, %is.wanted
  %after = add i64 %n, 1
  br i1 %is.same, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; The objects that somebody holds, where these are those whose byte of a second argument is 1; else None.
define ptr @held_as(ptr %self, ptr %arguments, i64 %given) {
entry:
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %objects = load ptr, ptr %arguments, align 8
  %flags.at = getelementptr ptr, ptr %arguments, i64 1
  %flags = load ptr, ptr %flags.at, align 8
  %is.list = call i1 @is_of(ptr %c, i64 21, ptr %objects)
  %are.bytes = call i1 @is_of(ptr %c, i64 22, ptr %flags)
  %is.known = and i1 %is.list, %are.bytes
  br i1 %is.known, label %count.them, label %slow
count.them:
  %count = call i64 @size_of(ptr %c, ptr %objects)
  %known = call i64 @size_of(ptr %c, ptr %flags)
  %are.many = icmp eq i64 %count, %known
  br i1 %are.many, label %look, label %other
look:
  %bytes = call ptr @bytes_of(ptr %c, ptr %flags)
  %are.same = call i1 @are_as(ptr %c, ptr %objects, i64 %count, ptr %bytes)
  br i1 %are.same, label %take, label %other
take:
  %found = call ptr @those_held(ptr %c, ptr %objects, i64 %count, ptr null)
  ret ptr %found
other:
  %none = call ptr @field(ptr %c, i64 23)
  call void @hold(ptr %c, ptr %none)
  ret ptr %none
slow:
  %by.python = call ptr @slowly(ptr %c, ptr %arguments, i64 %given)
  ret ptr %by.python
}
