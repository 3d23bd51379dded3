; Objects with a dict of which they share all but some fields: what `nodes_by_python` of
; `pyrite.columns` does.
;
; `nodes` is a function of CPython's (METH_FASTCALL): self is the bytes of %Nodes, its arguments are a
; tuple of patterns, a list, and the number of the first of them.
;
; Functions of objects stand in `objects.ll`.

%Nodes = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ptr, ; 20 PyTuple_GetItem
  ptr, ; 21 PyLong_FromLongLong
  ptr, ; 22 PyDict_Copy
  ptr, ; 23 PyDict_SetItem
  ptr, ; 24 PyObject_GenericSetAttr
  ; Objects.
  ptr, ; 25 None
  ptr, ; 26 what makes an object of a class
  ptr, ; 27 the name of the dict
  ; Bytes from the beginning of an object to its slots.
  i64  ; 28 any object: its class
}

; Owned: the dict of an object: what is shared, and others of a list; null with an error.
define internal ptr @fields(ptr %c, ptr %shared, ptr %others, ptr %made) {
entry:
  %get = call ptr @field(ptr %c, i64 20)
  %copy = call ptr @field(ptr %c, i64 22)
  %put = call ptr @field(ptr %c, i64 23)
  %count = call i64 @size_of(ptr %c, ptr %others)
  %fields = call ptr %copy(ptr %shared)
  %no.fields = icmp eq ptr %fields, null
  br i1 %no.fields, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put.it ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %other = call ptr %get(ptr %others, i64 %n)
  %name = call ptr %get(ptr %other, i64 0)
  %number = call ptr %get(ptr %other, i64 1)
  %place = call i64 @integer_of(ptr %c, ptr %number)
  %value = call ptr @item(ptr %c, ptr %made, i64 %place)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %lost, label %put.it
put.it:
  %not.put = call i32 %put(ptr %fields, ptr %name, ptr %value)
  %after = add i64 %n, 1
  %is.put = icmp eq i32 %not.put, 0
  br i1 %is.put, label %next, label %lost
done:
  ret ptr %fields
lost:
  call void @drop(ptr %c, ptr %fields)
  br label %failed
failed:
  ret ptr null
}

; Put an object behind what is in a list; false with an error.
define internal i1 @added(ptr %c, ptr %pattern, ptr %made) {
entry:
  %passed = alloca ptr, align 8
  %get = call ptr @field(ptr %c, i64 20)
  %set.attribute = call ptr @field(ptr %c, i64 24)
  %name = call ptr @field(ptr %c, i64 27)
  %new = call ptr @field(ptr %c, i64 26)
  %append = call ptr @field(ptr %c, i64 16)
  %cls = call ptr %get(ptr %pattern, i64 0)
  %shared = call ptr %get(ptr %pattern, i64 1)
  %others = call ptr %get(ptr %pattern, i64 2)
  %fields = call ptr @fields(ptr %c, ptr %shared, ptr %others, ptr %made)
  %no.fields = icmp eq ptr %fields, null
  br i1 %no.fields, label %no, label %make
make:
  store ptr %cls, ptr %passed, align 8
  %node = call ptr @called(ptr %c, ptr %new, ptr %passed, i64 1)
  %no.node = icmp eq ptr %node, null
  br i1 %no.node, label %drop.fields, label %fill
fill:
  %not.filled = call i32 %set.attribute(ptr %node, ptr %name, ptr %fields)
  %not.added = call i32 %append(ptr %made, ptr %node)
  call void @drop(ptr %c, ptr %node)
  %is.filled = icmp eq i32 %not.filled, 0
  %is.added = icmp eq i32 %not.added, 0
  %are.both = and i1 %is.filled, %is.added
  br label %drop.fields
drop.fields:
  %is.done = phi i1 [ false, %make ], [ %are.both, %fill ]
  call void @drop(ptr %c, ptr %fields)
  ret i1 %is.done
no:
  ret i1 false
}

define ptr @nodes(ptr %self, ptr %arguments, i64 %given) {
entry:
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %none = call ptr @field(ptr %c, i64 25)
  %get = call ptr @field(ptr %c, i64 20)
  %integer = call ptr @field(ptr %c, i64 21)
  %patterns = load ptr, ptr %arguments, align 8
  %made.at = getelementptr ptr, ptr %arguments, i64 1
  %made = load ptr, ptr %made.at, align 8
  %first.at = getelementptr ptr, ptr %arguments, i64 2
  %first.number = load ptr, ptr %first.at, align 8
  %first = call i64 @integer_of(ptr %c, ptr %first.number)
  %count = call i64 @size_of(ptr %c, ptr %patterns)
  br label %next
next:
  %n = phi i64 [ %first, %entry ], [ %after, %add ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %pattern = call ptr %get(ptr %patterns, i64 %n)
  %is.none = icmp eq ptr %pattern, %none
  br i1 %is.none, label %done, label %add
add:
  %is.added = call i1 @added(ptr %c, ptr %pattern, ptr %made)
  %after = add i64 %n, 1
  br i1 %is.added, label %next, label %failed
done:
  %reached = call ptr %integer(i64 %n)
  ret ptr %reached
failed:
  ret ptr null
}
