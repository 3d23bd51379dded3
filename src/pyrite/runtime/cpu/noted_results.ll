; The results of a call on a tape: variables, of a node or of none.
;
; It stands behind `tape.ll`, whose table it has.

; Owned: a tensor one level down of one of some results; null with an error.
define internal ptr @lower_tensor(ptr %c, ptr %results, i64 %n, ptr %type, ptr %inner) {
entry:
  %get = call ptr @field(ptr %c, i64 22)
  %tensors = call ptr @field(ptr %c, i64 32)
  %handle = call ptr %get(ptr %results, i64 %n)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %failed, label %make
make:
  %value = call ptr @made(ptr %c, ptr %tensors)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %lost, label %fill
fill:
  call void @put(ptr %c, i32 47, ptr %value, ptr %type)
  call void @put(ptr %c, i32 48, ptr %value, ptr %inner)
  call void @replace(ptr %c, i32 46, ptr %value, ptr %handle)
  ret ptr %value
lost:
  call void @drop(ptr %c, ptr %handle)
  br label %failed
failed:
  ret ptr null
}

; Owned: a tuple of the variable of a call's result; null with an error.
define internal ptr @noted(ptr %c, ptr %arguments, ptr %noting, ptr %results, ptr %inner, ptr %r) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %yes = call ptr @field(ptr %c, i64 26)
  %zero = call ptr @field(ptr %c, i64 29)
  %variables = call ptr @field(ptr %c, i64 30)
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %type = call ptr @slot(ptr %c, i32 59, ptr %noting)
  %float = call ptr @slot(ptr %c, i32 60, ptr %noting)
  %value = call ptr @lower_tensor(ptr %c, ptr %results, i64 0, ptr %type, ptr %inner)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %failed, label %ask
ask:
  %is.float = icmp eq ptr %float, %yes
  br i1 %is.float, label %node.it, label %constant
constant:
  call void @hold(ptr %c, ptr %none)
  br label %make
node.it:
  %noted = call ptr @node(ptr %c, ptr %arguments, ptr %noting, ptr %value, ptr %r)
  %not.noted = icmp eq ptr %noted, null
  br i1 %not.noted, label %lost, label %make
make:
  %node = phi ptr [ %none, %constant ], [ %noted, %node.it ]
  %variable = call ptr @made(ptr %c, ptr %variables)
  %out = call ptr %new(i64 1)
  %no.variable = icmp eq ptr %variable, null
  %no.out = icmp eq ptr %out, null
  %lacks = or i1 %no.variable, %no.out
  br i1 %lacks, label %lost.node, label %fill
fill:
  call void @put(ptr %c, i32 45, ptr %variable, ptr %zero)
  call void @replace(ptr %c, i32 43, ptr %variable, ptr %value)
  call void @replace(ptr %c, i32 44, ptr %variable, ptr %node)
  %was.set = call i32 %set(ptr %out, i64 0, ptr %variable)
  ret ptr %out
lost.node:
  call void @drop(ptr %c, ptr %node)
  call void @drop(ptr %c, ptr %variable)
  call void @drop(ptr %c, ptr %out)
  br label %lost
lost:
  call void @drop(ptr %c, ptr %value)
  br label %failed
failed:
  ret ptr null
}

; Owned: the tuple of the tensors one level down of all results; null with an error.
define internal ptr @lower_tensors(ptr %c, ptr %results, ptr %types, ptr %inner) {
entry:
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %get = call ptr @field(ptr %c, i64 20)
  %count = call i64 @size_of(ptr %c, ptr %types)
  %values = call ptr %new(i64 %count)
  %no.values = icmp eq ptr %values, null
  br i1 %no.values, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %type = call ptr %get(ptr %types, i64 %n)
  %value = call ptr @lower_tensor(ptr %c, ptr %results, i64 %n, ptr %type, ptr %inner)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %lost, label %put
put:
  %was.put = call i32 %set(ptr %values, i64 %n, ptr %value)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %values
lost:
  call void @drop(ptr %c, ptr %values)
  br label %failed
failed:
  ret ptr null
}

; Owned: a tuple of variables of these values, in order: of a node, where they are floats, or, with no
; floats, of none; null with an error.
define internal ptr @variables(ptr %c, ptr %values, ptr %node, ptr %floats) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %yes = call ptr @field(ptr %c, i64 26)
  %zero = call ptr @field(ptr %c, i64 29)
  %variables = call ptr @field(ptr %c, i64 30)
  %new = call ptr @field(ptr %c, i64 5)
  %set = call ptr @field(ptr %c, i64 6)
  %get = call ptr @field(ptr %c, i64 20)
  %integer = call ptr @field(ptr %c, i64 21)
  %has.none = icmp eq ptr %floats, %none
  %count = call i64 @size_of(ptr %c, ptr %values)
  %out = call ptr %new(i64 %count)
  %no.out = icmp eq ptr %out, null
  br i1 %no.out, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %variable = call ptr @made(ptr %c, ptr %variables)
  %no.variable = icmp eq ptr %variable, null
  br i1 %no.variable, label %lost, label %put.value
put.value:
  %was.put = call i32 %set(ptr %out, i64 %n, ptr %variable)
  %value = call ptr %get(ptr %values, i64 %n)
  call void @put(ptr %c, i32 43, ptr %variable, ptr %value)
  br i1 %has.none, label %constant, label %numbered
constant:
  call void @put(ptr %c, i32 44, ptr %variable, ptr %none)
  call void @put(ptr %c, i32 45, ptr %variable, ptr %zero)
  br label %put
numbered:
  %index = call ptr %integer(i64 %n)
  %no.index = icmp eq ptr %index, null
  br i1 %no.index, label %lost, label %ask
ask:
  %is.float = call ptr %get(ptr %floats, i64 %n)
  %has.node = icmp eq ptr %is.float, %yes
  %its = select i1 %has.node, ptr %node, ptr %none
  call void @put(ptr %c, i32 44, ptr %variable, ptr %its)
  call void @replace(ptr %c, i32 45, ptr %variable, ptr %index)
  br label %put
put:
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %out
lost:
  call void @drop(ptr %c, ptr %out)
  br label %failed
failed:
  ret ptr null
}

; Owned: a tuple of the variables of a call's results; null with an error.
define internal ptr @all_noted(ptr %c, ptr %arguments, ptr %noting, ptr %results, ptr %inner, ptr %r) {
entry:
  %floats = call ptr @slot(ptr %c, i32 68, ptr %noting)
  %types = call ptr @slot(ptr %c, i32 61, ptr %noting)
  %values = call ptr @lower_tensors(ptr %c, ptr %results, ptr %types, ptr %inner)
  %no.values = icmp eq ptr %values, null
  br i1 %no.values, label %failed, label %note
note:
  %node = call ptr @node(ptr %c, ptr %arguments, ptr %noting, ptr %values, ptr %r)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %lost, label %make
make:
  %out = call ptr @variables(ptr %c, ptr %values, ptr %node, ptr %floats)
  call void @drop(ptr %c, ptr %node)
  call void @drop(ptr %c, ptr %values)
  ret ptr %out
lost:
  call void @drop(ptr %c, ptr %values)
  br label %failed
failed:
  ret ptr null
}

; Owned: a tuple of the variables of the results of a call that no gradient flows through; null with an
; error.
define internal ptr @constants(ptr %c, ptr %results, ptr %types, ptr %inner) {
entry:
  %none = call ptr @field(ptr %c, i64 25)
  %values = call ptr @lower_tensors(ptr %c, ptr %results, ptr %types, ptr %inner)
  %no.values = icmp eq ptr %values, null
  br i1 %no.values, label %failed, label %make
make:
  %out = call ptr @variables(ptr %c, ptr %values, ptr %none, ptr %none)
  call void @drop(ptr %c, ptr %values)
  ret ptr %out
failed:
  ret ptr null
}
