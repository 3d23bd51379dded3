; A call as it was written: what `call_as_given` of `pyrite.op.binding` does, for attributes that were
; given so before.
;
; It stands behind `binding.ll`, whose table it has.  Where anything is not as in most calls nothing was
; done yet, and the Python that does the same is called.

; Whether a value, with its class, is a key: it stays as it is, and none that means another thing is
; equal to it that is one, as 0.0 and -0.0 would be.
define internal i1 @is_plain(ptr %c, ptr %x, ptr %class) {
entry:
  %tuples = call ptr @field(ptr %c, i64 27)
  %floats = call ptr @field(ptr %c, i64 28)
  %integers = call ptr @field(ptr %c, i64 29)
  %nones = call ptr @field(ptr %c, i64 33)
  %bools = call ptr @field(ptr %c, i64 39)
  %texts = call ptr @field(ptr %c, i64 40)
  %dtypes = call ptr @field(ptr %c, i64 41)
  %item = call ptr @field(ptr %c, i64 21)
  %is.float = icmp eq ptr %class, %floats
  br i1 %is.float, label %float, label %ask
float:
  %value = call double @double_of(ptr %c, ptr %x)
  %nothing = fsub double %value, %value
  %is.finite = fcmp oeq double %nothing, 0.0
  %bits = bitcast double %value to i64
  %is.not.less = icmp ne i64 %bits, -9223372036854775808
  %is.itself = and i1 %is.finite, %is.not.less
  ret i1 %is.itself
ask:
  %is.tuple = icmp eq ptr %class, %tuples
  br i1 %is.tuple, label %count.them, label %other
count.them:
  %count = call i64 @size_of(ptr %c, ptr %x)
  br label %next
next:
  %n = phi i64 [ 0, %count.them ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %yes
one:
  %size = call ptr %item(ptr %x, i64 %n)
  %its = call ptr @class_of(ptr %c, ptr %size)
  %is.size = icmp eq ptr %its, %integers
  %after = add i64 %n, 1
  br i1 %is.size, label %next, label %no
other:
  %is.integer = icmp eq ptr %class, %integers
  %is.none = icmp eq ptr %class, %nones
  %is.bool = icmp eq ptr %class, %bools
  %is.text = icmp eq ptr %class, %texts
  %is.dtype = icmp eq ptr %class, %dtypes
  %is.number = or i1 %is.integer, %is.bool
  %is.named = or i1 %is.text, %is.dtype
  %is.fixed = or i1 %is.number, %is.named
  %is.known = or i1 %is.fixed, %is.none
  ret i1 %is.known
yes:
  ret i1 true
no:
  ret i1 false
}

; Put down class and value of each attribute that is given by its place, then name, class and value of
; those given by name; all borrowed.  Return how many words that are, -1 where Python has to look.
define internal i64 @attribute_parts(ptr %c, ptr %args, i64 %first, i64 %end, ptr %named, ptr %parts) {
entry:
  %at = alloca i64, align 8
  %name = alloca ptr, align 8
  %value = alloca ptr, align 8
  store i64 0, ptr %at, align 8
  %item = call ptr @field(ptr %c, i64 21)
  %next.of = call ptr @field(ptr %c, i64 23)
  br label %next
next:
  %n = phi i64 [ %first, %entry ], [ %after, %put ]
  %made = phi i64 [ 0, %entry ], [ %made.more, %put ]
  %is.more = icmp slt i64 %n, %end
  br i1 %is.more, label %one, label %next.named
one:
  %x = call ptr %item(ptr %args, i64 %n)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.plain = call i1 @is_plain(ptr %c, ptr %x, ptr %class)
  br i1 %is.plain, label %put, label %unknown
put:
  %class.at = getelementptr ptr, ptr %parts, i64 %made
  %value.at = getelementptr ptr, ptr %class.at, i64 1
  store ptr %class, ptr %class.at, align 8
  store ptr %x, ptr %value.at, align 8
  %made.more = add i64 %made, 2
  %after = add i64 %n, 1
  br label %next
next.named:
  %found = phi i64 [ %made, %next ], [ %found.more, %put.named ]
  %has.one = call i32 %next.of(ptr %named, ptr %at, ptr %name, ptr %value)
  %is.end = icmp eq i32 %has.one, 0
  br i1 %is.end, label %done, label %one.named
one.named:
  %its.name = load ptr, ptr %name, align 8
  %y = load ptr, ptr %value, align 8
  %its.class = call ptr @class_of(ptr %c, ptr %y)
  %is.plain.too = call i1 @is_plain(ptr %c, ptr %y, ptr %its.class)
  br i1 %is.plain.too, label %put.named, label %unknown
put.named:
  %first.at = getelementptr ptr, ptr %parts, i64 %found
  %second.at = getelementptr ptr, ptr %first.at, i64 1
  %third.at = getelementptr ptr, ptr %first.at, i64 2
  store ptr %its.name, ptr %first.at, align 8
  store ptr %its.class, ptr %second.at, align 8
  store ptr %y, ptr %third.at, align 8
  %found.more = add i64 %found, 3
  br label %next.named
done:
  ret i64 %found
unknown:
  ret i64 -1
}

; Owned: what a dict has under the tuple of some parts; null, and maybe an error, where that is nothing.
define internal ptr @known_of(ptr %c, ptr %known, ptr %parts, i64 %count) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %get = call ptr @field(ptr %c, i64 8)
  %key = call ptr %new(i64 %count)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %unknown, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %one ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %find
one:
  %part.at = getelementptr ptr, ptr %parts, i64 %n
  %part = load ptr, ptr %part.at, align 8
  call void @hold(ptr %c, ptr %part)
  %was.set = call i32 %set(ptr %key, i64 %n, ptr %part)
  %after = add i64 %n, 1
  br label %next
find:
  %found = call ptr %get(ptr %known, ptr %key)
  ; Another thread may forget it meanwhile.
  call void @hold(ptr %c, ptr %found)
  call void @drop(ptr %c, ptr %key)
  ret ptr %found
unknown:
  ret ptr null
}

; Put down what stands before the attributes in a key: how many inputs there are, where some are left out,
; or the number of the type of the first, where attributes depend on it.  Return how many words that are,
; -1 where Python has to look.  The first is owned where inputs are left out.
define internal i64 @leading_part(ptr %c, ptr %of, ptr %args, i64 %count, i64 %own, ptr %parts) {
entry:
  %none = call ptr @field(ptr %c, i64 26)
  %item = call ptr @field(ptr %c, i64 21)
  %integer = call ptr @field(ptr %c, i64 25)
  %of.type = call ptr @slot(ptr %c, i32 60, ptr %of)
  %is.any = icmp eq ptr %of.type, %none
  br i1 %is.any, label %ask, label %typed
ask:
  %has.all = icmp sge i64 %own, 0
  br i1 %has.all, label %nothing, label %short
short:
  %number = call ptr %integer(i64 %count)
  %no.number = icmp eq ptr %number, null
  br i1 %no.number, label %unknown, label %put
typed:
  %has.first = icmp sgt i64 %count, 0
  %has.inputs = icmp sge i64 %own, 0
  %is.whole = and i1 %has.first, %has.inputs
  br i1 %is.whole, label %first, label %unknown
first:
  %x = call ptr %item(ptr %args, i64 0)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.tensor = call i1 @is_tensor(ptr %c, ptr %class)
  br i1 %is.tensor, label %look, label %unknown
look:
  %type = call ptr @slot(ptr %c, i32 48, ptr %x)
  %key = call ptr @slot(ptr %c, i32 50, ptr %type)
  %tuples = call ptr @field(ptr %c, i64 27)
  %shape = call ptr @slot(ptr %c, i32 62, ptr %type)
  ; Sizes that are marked, and symbols, are no part of what is kept.
  %is.plain = call i1 @is_plain(ptr %c, ptr %shape, ptr %tuples)
  br i1 %is.plain, label %put, label %unknown
put:
  %part = phi ptr [ %number, %short ], [ %key, %look ]
  store ptr %part, ptr %parts, align 8
  ret i64 1
nothing:
  ret i64 0
unknown:
  ret i64 -1
}

; Owned: the inputs of a call: what is given but for attributes, and what is left out.
define internal ptr @inputs_of(ptr %c, ptr %args, i64 %arity, i64 %own, ptr %known) {
entry:
  %item = call ptr @field(ptr %c, i64 21)
  %slice = call ptr @field(ptr %c, i64 22)
  %concat = call ptr @field(ptr %c, i64 24)
  %has.more = icmp sgt i64 %own, 0
  br i1 %has.more, label %cut, label %ask
cut:
  %part = call ptr %slice(ptr %args, i64 0, i64 %arity)
  ret ptr %part
ask:
  %are.all = icmp eq i64 %own, 0
  br i1 %are.all, label %same, label %fill
same:
  call void @hold(ptr %c, ptr %args)
  ret ptr %args
fill:
  %left.out = call ptr %item(ptr %known, i64 2)
  %whole = call ptr %concat(ptr %args, ptr %left.out)
  ret ptr %whole
}

; A function of CPython's (METH_FASTCALL): self is the bytes of %Binding, its arguments are known
; arguments, the tuple of what was given, and the dict of what was given by name.
define ptr @call_as_given(ptr %self, ptr %arguments, i64 %given) {
entry:
  %parts = alloca [41 x ptr], align 8
  %passed = alloca [4 x ptr], align 8
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %item = call ptr @field(ptr %c, i64 21)
  %of = load ptr, ptr %arguments, align 8
  %args.at = getelementptr ptr, ptr %arguments, i64 1
  %args = load ptr, ptr %args.at, align 8
  %named.at = getelementptr ptr, ptr %arguments, i64 2
  %named = load ptr, ptr %named.at, align 8
  %arity.number = call ptr @slot(ptr %c, i32 58, ptr %of)
  %its.arity = call i64 @integer_of(ptr %c, ptr %arity.number)
  %count = call i64 @size_of(ptr %c, ptr %args)
  ; Of any number of inputs it is less than none.
  %is.any = icmp slt i64 %its.arity, 0
  %arity = select i1 %is.any, i64 %count, i64 %its.arity
  %count.named = call i64 @size_of(ptr %c, ptr %named)
  %own = sub i64 %count, %arity
  %are.few = icmp sle i64 %own, 8
  %are.few.named = icmp sle i64 %count.named, 8
  %may.go = and i1 %are.few, %are.few.named
  br i1 %may.go, label %lead, label %slowly
lead:
  %leading = call i64 @leading_part(ptr %c, ptr %of, ptr %args, i64 %count, i64 %own, ptr %parts)
  %is.unfit = icmp slt i64 %leading, 0
  br i1 %is.unfit, label %forget, label %look
look:
  %others.at = getelementptr ptr, ptr %parts, i64 %leading
  %others = call i64 @attribute_parts(ptr %c, ptr %args, i64 %arity, i64 %count, ptr %named, ptr %others.at)
  %is.unknown = icmp slt i64 %others, 0
  br i1 %is.unknown, label %drop.lead, label %find
find:
  %size = add i64 %leading, %others
  %attributes.known = call ptr @slot(ptr %c, i32 59, ptr %of)
  %found = call ptr @known_of(ptr %c, ptr %attributes.known, ptr %parts, i64 %size)
  br label %drop.lead
drop.lead:
  %known = phi ptr [ null, %look ], [ %found, %find ]
  %has.short = icmp slt i64 %own, 0
  br i1 %has.short, label %drop.number, label %ask
drop.number:
  %number = load ptr, ptr %parts, align 8
  call void @drop(ptr %c, ptr %number)
  br label %ask
ask:
  %is.new = icmp eq ptr %known, null
  br i1 %is.new, label %forget, label %take
take:
  %inputs = call ptr @inputs_of(ptr %c, ptr %args, i64 %arity, i64 %own, ptr %known)
  %no.inputs = icmp eq ptr %inputs, null
  br i1 %no.inputs, label %lost, label %call
call:
  %op = call ptr @slot(ptr %c, i32 57, ptr %of)
  %attributes = call ptr %item(ptr %known, i64 0)
  %form = call ptr %item(ptr %known, i64 1)
  %second.at = getelementptr ptr, ptr %passed, i64 1
  %third.at = getelementptr ptr, ptr %passed, i64 2
  %fourth.at = getelementptr ptr, ptr %passed, i64 3
  store ptr %op, ptr %passed, align 8
  store ptr %inputs, ptr %second.at, align 8
  store ptr %attributes, ptr %third.at, align 8
  store ptr %form, ptr %fourth.at, align 8
  %made = call ptr @bound(ptr %c, ptr %passed)
  call void @drop(ptr %c, ptr %inputs)
  call void @drop(ptr %c, ptr %known)
  ret ptr %made
lost:
  call void @drop(ptr %c, ptr %known)
  br label %forget
forget:
  call void @forget_error(ptr %c)
  br label %slowly
slowly:
  %slow = call ptr @field(ptr %c, i64 42)
  %slow.made = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %slow.made
}
