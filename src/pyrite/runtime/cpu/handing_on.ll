; A call that a decorator of a backend hands on as it is: what `Fusion.execute` does where calls run at
; once and are not looked at.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %HandingOn, its arguments
; are an op, the list of its inputs, and its plan.  Where anything is not as in most calls nothing was
; done yet, and the Python that does the same is called.
;
; Functions of objects stand in `objects.ll`.

%HandingOn = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ; Objects.
  ptr, ; 20 a list that is empty unless a block forbids something
  ptr, ; 21 a dict of the plans that are looked at in the middle of others
  ptr, ; 22 what each thread does
  ptr, ; 23 the name of that
  ptr, ; 24 its state, where calls run at once: a small number
  ptr, ; 25 the backend below
  ptr, ; 26 the name of its `execute`
  ptr, ; 27 what it returns of a call that is not its own
  ptr, ; 28 the Python that does the same
  ; Bytes from the beginning of an object to its slots.
  i64, ; 29 any object: its class
  i64, ; 30 what a thread does: state
  i64  ; 31 an op: kernels
}

define internal ptr @field(ptr %c, i64 %n) {
  %at = getelementptr ptr, ptr %c, i64 %n
  %value = load ptr, ptr %at, align 8
  ret ptr %value
}

; Whether a plan is looked at; an error counts as that.
define internal i1 @is_looked_at(ptr %c, ptr %plan) {
entry:
  %plans = call ptr @field(ptr %c, i64 21)
  %count = call i64 @size_of(ptr %c, ptr %plans)
  %are.none = icmp eq i64 %count, 0
  br i1 %are.none, label %no, label %look
look:
  %get = call ptr @field(ptr %c, i64 8)
  %found = call ptr %get(ptr %plans, ptr %plan)
  %is.missing = icmp eq ptr %found, null
  br i1 %is.missing, label %failed, label %yes
failed:
  %occurred = call ptr @field(ptr %c, i64 19)
  %error = call ptr %occurred()
  %is.fine = icmp eq ptr %error, null
  br i1 %is.fine, label %no, label %forget
forget:
  call void @forget_error(ptr %c)
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether calls of this thread run at once; an error counts as no.
define internal i1 @is_plain(ptr %c) {
entry:
  %threads = call ptr @field(ptr %c, i64 22)
  %name = call ptr @field(ptr %c, i64 23)
  %plain = call ptr @field(ptr %c, i64 24)
  %here = call ptr @attribute(ptr %c, ptr %threads, ptr %name)
  %none = icmp eq ptr %here, null
  br i1 %none, label %failed, label %look
look:
  %state = call ptr @slot(ptr %c, i32 30, ptr %here)
  %is.plain = icmp eq ptr %state, %plain
  call void @drop(ptr %c, ptr %here)
  ret i1 %is.plain
failed:
  call void @forget_error(ptr %c)
  ret i1 false
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %are.three = icmp eq i64 %given, 3
  br i1 %are.three, label %ask, label %slowly
ask:
  %op = load ptr, ptr %arguments, align 8
  %plan.at = getelementptr ptr, ptr %arguments, i64 2
  %plan = load ptr, ptr %plan.at, align 8
  %restrictions = call ptr @field(ptr %c, i64 20)
  %forbidding = call i64 @size_of(ptr %c, ptr %restrictions)
  %is.free = icmp eq i64 %forbidding, 0
  %kernels = call ptr @slot(ptr %c, i32 31, ptr %op)
  %own = call i64 @size_of(ptr %c, ptr %kernels)
  %has.none = icmp eq i64 %own, 0
  %is.usual = and i1 %is.free, %has.none
  br i1 %is.usual, label %ask.plain, label %slowly
ask.plain:
  %is.plain = call i1 @is_plain(ptr %c)
  br i1 %is.plain, label %ask.plan, label %slowly
ask.plan:
  %is.looked.at = call i1 @is_looked_at(ptr %c, ptr %plan)
  br i1 %is.looked.at, label %slowly, label %hand.on
hand.on:
  %inner = call ptr @field(ptr %c, i64 25)
  %name = call ptr @field(ptr %c, i64 26)
  %foreign = call ptr @field(ptr %c, i64 27)
  %method = call ptr @attribute(ptr %c, ptr %inner, ptr %name)
  %no.method = icmp eq ptr %method, null
  br i1 %no.method, label %failed, label %call
call:
  %results = call ptr @called(ptr %c, ptr %method, ptr %arguments, i64 3)
  call void @drop(ptr %c, ptr %method)
  %is.foreign = icmp eq ptr %results, %foreign
  br i1 %is.foreign, label %drop.it, label %done
drop.it:
  call void @drop(ptr %c, ptr %results)
  br label %slowly
done:
  ret ptr %results
failed:
  ret ptr null
slowly:
  %slow = call ptr @field(ptr %c, i64 28)
  %made = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %made
}
