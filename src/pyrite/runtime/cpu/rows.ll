; Several calls that were planned before, each as the row that a backend takes.
;
; It stands behind `binding.ll`, whose table it has.

; A number that the call before gave in the same place is the same object for the backend.
%Shared = type { [8 x ptr], [8 x ptr], [8 x ptr] }

; Owned: what `given` returns, but one object for a number that comes again; its values, types and
; objects, borrowed, by places.
define internal ptr @given_again(ptr %c, ptr %x, ptr %takes, i64 %n, ptr %shared) {
entry:
  %none = call ptr @field(ptr %c, i64 26)
  %get = call ptr @field(ptr %c, i64 21)
  %takes.none = icmp eq ptr %takes, %none
  br i1 %takes.none, label %plain, label %ask
plain:
  %given = call ptr @given(ptr %c, ptr %x, ptr %takes, i64 %n)
  ret ptr %given
ask:
  %type = call ptr %get(ptr %takes, i64 %n)
  %value.at = getelementptr %Shared, ptr %shared, i64 0, i32 0, i64 %n
  %type.at = getelementptr %Shared, ptr %shared, i64 0, i32 1, i64 %n
  %object.at = getelementptr %Shared, ptr %shared, i64 0, i32 2, i64 %n
  %value = load ptr, ptr %value.at, align 8
  %its = load ptr, ptr %type.at, align 8
  %object = load ptr, ptr %object.at, align 8
  %is.value = icmp eq ptr %value, %x
  %is.typed = icmp ne ptr %type, %none
  %may.be = and i1 %is.value, %is.typed
  br i1 %may.be, label %ask.type, label %new
ask.type:
  ; Plans have equal types, not one.
  %key = call ptr @slot(ptr %c, i32 50, ptr %type)
  %its.key = call ptr @slot(ptr %c, i32 50, ptr %its)
  %number = call i64 @integer_of(ptr %c, ptr %key)
  %its.number = call i64 @integer_of(ptr %c, ptr %its.key)
  %is.equal = icmp eq i64 %number, %its.number
  %is.kept = icmp ne i64 %number, 0
  %is.same = and i1 %is.equal, %is.kept
  br i1 %is.same, label %same, label %new
same:
  call void @hold(ptr %c, ptr %object)
  ret ptr %object
new:
  %made = call ptr @given(ptr %c, ptr %x, ptr %takes, i64 %n)
  store ptr %x, ptr %value.at, align 8
  store ptr %type, ptr %type.at, align 8
  store ptr %made, ptr %object.at, align 8
  ret ptr %made
}

; Owned: the list of what a backend gets of a call, and its plan, as a tuple; null, and maybe an error,
; where that is to be found out.
define internal ptr @row(ptr %c, ptr %op, ptr %inputs, ptr %form, ptr %backend, ptr %shared) {
entry:
  %kinds = alloca [8 x ptr], align 8
  %none = call ptr @field(ptr %c, i64 26)
  %tuples = call ptr @field(ptr %c, i64 27)
  %item = call ptr @field(ptr %c, i64 21)
  %get = call ptr @field(ptr %c, i64 8)
  %set = call ptr @field(ptr %c, i64 6)
  %set.item = call ptr @field(ptr %c, i64 18)
  %new = call ptr @field(ptr %c, i64 5)
  %new.list = call ptr @field(ptr %c, i64 10)
  %class = call ptr @class_of(ptr %c, ptr %inputs)
  %is.tuple = icmp eq ptr %class, %tuples
  br i1 %is.tuple, label %count.them, label %unknown
count.them:
  %count = call i64 @size_of(ptr %c, ptr %inputs)
  %are.few = icmp sle i64 %count, 8
  br i1 %are.few, label %look, label %unknown
look:
  %its = call ptr @kinds(ptr %c, ptr %inputs, i64 %count, ptr %kinds)
  %is.here = icmp eq ptr %its, %backend
  br i1 %is.here, label %keyed, label %unknown
keyed:
  %key = call ptr @key(ptr %c, ptr %form, ptr %kinds, i64 %count)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %unknown, label %find
find:
  %plans = call ptr @slot(ptr %c, i32 51, ptr %op)
  %plan = call ptr %get(ptr %plans, ptr %key)
  call void @hold(ptr %c, ptr %plan)
  call void @drop(ptr %c, ptr %key)
  %is.new = icmp eq ptr %plan, null
  br i1 %is.new, label %unknown, label %ask
ask:
  %numbers = call ptr @slot(ptr %c, i32 54, ptr %plan)
  %takes = call ptr @slot(ptr %c, i32 53, ptr %plan)
  %has.numbers = icmp ne ptr %numbers, %none
  br i1 %has.numbers, label %unfit, label %list.it
list.it:
  %list = call ptr %new.list(i64 %count)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %unfit, label %next
next:
  %n = phi i64 [ 0, %list.it ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %pair
one:
  %x = call ptr %item(ptr %inputs, i64 %n)
  %given = call ptr @given_again(ptr %c, ptr %x, ptr %takes, i64 %n, ptr %shared)
  %not.given = icmp eq ptr %given, null
  br i1 %not.given, label %undo, label %put
put:
  %was.put = call i32 %set.item(ptr %list, i64 %n, ptr %given)
  %after = add i64 %n, 1
  br label %next
pair:
  %row = call ptr %new(i64 2)
  %no.row = icmp eq ptr %row, null
  br i1 %no.row, label %undo, label %fill
fill:
  %first = call i32 %set(ptr %row, i64 0, ptr %list)
  %second = call i32 %set(ptr %row, i64 1, ptr %plan)
  ret ptr %row
undo:
  call void @drop(ptr %c, ptr %list)
  br label %unfit
unfit:
  call void @drop(ptr %c, ptr %plan)
  br label %unknown
unknown:
  ret ptr null
}

; A function of CPython's too: what `known_rows` of `pyrite.op.columns` does of rows, for an op, a list
; of tuples of inputs, the form of its attributes, and a backend.  None where that is to be found out.
define ptr @rows(ptr %self, ptr %arguments, i64 %given) {
entry:
  %shared = alloca %Shared, align 8
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %none = call ptr @field(ptr %c, i64 26)
  %new = call ptr @field(ptr %c, i64 10)
  %set = call ptr @field(ptr %c, i64 18)
  %op = load ptr, ptr %arguments, align 8
  %calls.at = getelementptr ptr, ptr %arguments, i64 1
  %form.at = getelementptr ptr, ptr %arguments, i64 2
  %backend.at = getelementptr ptr, ptr %arguments, i64 3
  %calls = load ptr, ptr %calls.at, align 8
  %form = load ptr, ptr %form.at, align 8
  %backend = load ptr, ptr %backend.at, align 8
  store %Shared zeroinitializer, ptr %shared, align 8
  %count = call i64 @size_of(ptr %c, ptr %calls)
  %rows = call ptr %new(i64 %count)
  %no.rows = icmp eq ptr %rows, null
  br i1 %no.rows, label %forget, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %inputs = call ptr @item(ptr %c, ptr %calls, i64 %n)
  %row = call ptr @row(ptr %c, ptr %op, ptr %inputs, ptr %form, ptr %backend, ptr %shared)
  %no.row = icmp eq ptr %row, null
  br i1 %no.row, label %undo, label %put
put:
  %was.put = call i32 %set(ptr %rows, i64 %n, ptr %row)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %rows
undo:
  call void @drop(ptr %c, ptr %rows)
  br label %forget
forget:
  call void @forget_error(ptr %c)
  call void @hold(ptr %c, ptr %none)
  ret ptr %none
}
