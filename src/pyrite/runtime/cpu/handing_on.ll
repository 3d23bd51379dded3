; A call that a decorator of a backend hands on as it is, or has recorded as one that came before: what
; `Fusion.execute` does where calls run at once and are not looked at, and where they are recorded.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %HandingOn, its arguments
; are an op, the list of its inputs, and its plan.  Where anything is not as in most calls nothing was
; done yet, and the Python that does the same is called.
;
; Functions of objects stand in `objects.ll`.

%HandingOn = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ptr, ; 20 PyContextVar_Get
  ; Objects.
  ptr, ; 21 a list that is empty unless a block forbids something
  ptr, ; 22 a dict of the plans that are looked at in the middle of others
  ptr, ; 23 what each thread does
  ptr, ; 24 the name of that
  ptr, ; 25 its state, where calls run at once: a small number
  ptr, ; 26 its state, where they are recorded
  ptr, ; 27 the backend below
  ptr, ; 28 the name of its `execute`
  ptr, ; 29 what it returns of a call that is not its own
  ptr, ; 30 the Python that does the same
  ptr, ; 31 None
  ptr, ; 32 True
  ptr, ; 33 the variable of the calls that a task records
  ptr, ; 34 the modules that were imported
  ptr, ; 35 the name of the one that has tasks
  ptr, ; 36 what records a call that came before: that of `recording.ll`
  ; Bytes from the beginning of an object to its slots.
  i64, ; 37 any object: its class
  i64, ; 38 what a thread does: state
  i64, ; 39 pending
  i64, ; 40 is_in_task
  i64, ; 41 running
  i64, ; 42 an op: kernels
  i64  ; 43 a plan: is_kept
}

; Whether a plan is looked at; an error counts as that.
define internal i1 @is_looked_at(ptr %c, ptr %plan) {
entry:
  %plans = call ptr @field(ptr %c, i64 22)
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

; Whether the thread runs what its calls are of: no task, or that one.  An error counts as no.
define internal i1 @is_here(ptr %c, ptr %here, ptr %calls) {
entry:
  %found = alloca ptr, align 8
  %none = call ptr @field(ptr %c, i64 31)
  %yes = call ptr @field(ptr %c, i64 32)
  %in.task = call ptr @slot(ptr %c, i32 40, ptr %here)
  %is.in.task = icmp eq ptr %in.task, %yes
  br i1 %is.in.task, label %task, label %outside
task:
  store ptr null, ptr %found, align 8
  %get = call ptr @field(ptr %c, i64 20)
  %recorded = call ptr @field(ptr %c, i64 33)
  %not.got = call i32 %get(ptr %recorded, ptr null, ptr %found)
  %its = load ptr, ptr %found, align 8
  %is.its = icmp eq ptr %its, %calls
  call void @drop(ptr %c, ptr %its)
  br i1 %is.its, label %here.it.is, label %no
outside:
  %running = call ptr @slot(ptr %c, i32 41, ptr %here)
  %is.unknown = icmp eq ptr %running, %none
  br i1 %is.unknown, label %look, label %ask
look:
  %lookup = call ptr @field(ptr %c, i64 8)
  %modules = call ptr @field(ptr %c, i64 34)
  %name = call ptr @field(ptr %c, i64 35)
  %module = call ptr %lookup(ptr %modules, ptr %name)
  %is.missing = icmp eq ptr %module, null
  br i1 %is.missing, label %here.it.is, label %no
ask:
  %loop = call ptr @called(ptr %c, ptr %running, ptr null, i64 0)
  %is.none = icmp eq ptr %loop, %none
  call void @drop(ptr %c, ptr %loop)
  br i1 %is.none, label %here.it.is, label %no
here.it.is:
  ret i1 true
no:
  call void @forget_error(ptr %c)
  ret i1 false
}

; Owned: what the backend below returns of a call; None where it is not its own.
define internal ptr @handed_on(ptr %c, ptr %arguments) {
entry:
  %inner = call ptr @field(ptr %c, i64 27)
  %name = call ptr @field(ptr %c, i64 28)
  %foreign = call ptr @field(ptr %c, i64 29)
  %method = call ptr @attribute(ptr %c, ptr %inner, ptr %name)
  %no.method = icmp eq ptr %method, null
  br i1 %no.method, label %failed, label %call
call:
  %results = call ptr @called(ptr %c, ptr %method, ptr %arguments, i64 3)
  call void @drop(ptr %c, ptr %method)
  ret ptr %results
failed:
  ret ptr null
}

; Owned: what the recorded calls return of one that came before; None of any other.
define internal ptr @recorded(ptr %c, ptr %calls, ptr %arguments) {
  %passed = alloca [3 x ptr], align 8
  %second.at = getelementptr ptr, ptr %passed, i64 1
  %third.at = getelementptr ptr, ptr %passed, i64 2
  %inputs.at = getelementptr ptr, ptr %arguments, i64 1
  %plan.at = getelementptr ptr, ptr %arguments, i64 2
  %inputs = load ptr, ptr %inputs.at, align 8
  %plan = load ptr, ptr %plan.at, align 8
  store ptr %calls, ptr %passed, align 8
  store ptr %inputs, ptr %second.at, align 8
  store ptr %plan, ptr %third.at, align 8
  %again = call ptr @field(ptr %c, i64 36)
  ; Another thread may leave them meanwhile.
  call void @hold(ptr %c, ptr %calls)
  %results = call ptr @called(ptr %c, ptr %again, ptr %passed, i64 3)
  call void @drop(ptr %c, ptr %calls)
  ret ptr %results
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %foreign = call ptr @field(ptr %c, i64 29)
  %none = call ptr @field(ptr %c, i64 31)
  %are.three = icmp eq i64 %given, 3
  br i1 %are.three, label %ask, label %slowly
ask:
  %op = load ptr, ptr %arguments, align 8
  %plan.at = getelementptr ptr, ptr %arguments, i64 2
  %plan = load ptr, ptr %plan.at, align 8
  %restrictions = call ptr @field(ptr %c, i64 21)
  %forbidding = call i64 @size_of(ptr %c, ptr %restrictions)
  %is.free = icmp eq i64 %forbidding, 0
  %kernels = call ptr @slot(ptr %c, i32 42, ptr %op)
  %own = call i64 @size_of(ptr %c, ptr %kernels)
  %has.none = icmp eq i64 %own, 0
  %is.usual = and i1 %is.free, %has.none
  br i1 %is.usual, label %ask.thread, label %slowly
ask.thread:
  %threads = call ptr @field(ptr %c, i64 23)
  %name = call ptr @field(ptr %c, i64 24)
  ; It is this thread's as long as the thread is there.
  %here = call ptr @attribute(ptr %c, ptr %threads, ptr %name)
  call void @drop(ptr %c, ptr %here)
  %nowhere = icmp eq ptr %here, null
  br i1 %nowhere, label %forget, label %ask.state
forget:
  call void @forget_error(ptr %c)
  br label %slowly
ask.state:
  %state = call ptr @slot(ptr %c, i32 38, ptr %here)
  %plain = call ptr @field(ptr %c, i64 25)
  %recording = call ptr @field(ptr %c, i64 26)
  %is.plain = icmp eq ptr %state, %plain
  br i1 %is.plain, label %ask.plan, label %ask.recording
ask.plan:
  %is.looked.at = call i1 @is_looked_at(ptr %c, ptr %plan)
  br i1 %is.looked.at, label %slowly, label %hand.on
hand.on:
  %handed = call ptr @handed_on(ptr %c, ptr %arguments)
  %is.foreign = icmp eq ptr %handed, %foreign
  br i1 %is.foreign, label %drop.it, label %done
ask.recording:
  %yes = call ptr @field(ptr %c, i64 32)
  %kept = call ptr @slot(ptr %c, i32 43, ptr %plan)
  %is.recording = icmp eq ptr %state, %recording
  %is.kept = icmp eq ptr %kept, %yes
  %may.be.known = and i1 %is.recording, %is.kept
  br i1 %may.be.known, label %ask.task, label %slowly
ask.task:
  %calls = call ptr @slot(ptr %c, i32 39, ptr %here)
  %is.here = call i1 @is_here(ptr %c, ptr %here, ptr %calls)
  br i1 %is.here, label %record, label %slowly
record:
  %recorded = call ptr @recorded(ptr %c, ptr %calls, ptr %arguments)
  %is.new = icmp eq ptr %recorded, %none
  br i1 %is.new, label %drop.it, label %done
drop.it:
  %nothing = phi ptr [ %handed, %hand.on ], [ %recorded, %record ]
  call void @drop(ptr %c, ptr %nothing)
  br label %slowly
done:
  %results = phi ptr [ %handed, %hand.on ], [ %recorded, %record ]
  ret ptr %results
slowly:
  %slow = call ptr @field(ptr %c, i64 30)
  %made = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %made
}
