; What calls of one op have in common that machine code makes, on whatever device: this text stands behind
; that of a device, which has the table %c.  Fields 0 to 26, 31, 43 to 50 and 59 mean in each what they do
; in `call.ll`: functions of the C API; None, the class of tensors; the cache of replays; slots of a tensor and of the
; cache.

; Owned: a tuple of the one result, of which a view has type, strides, offset and layout.
define internal ptr @result(ptr %c, ptr %view, ptr %buffer, ptr %doubt) {
entry:
  %class.at = getelementptr ptr, ptr %c, i64 24
  %class = load ptr, ptr %class.at, align 8
  %tensor = call ptr @made(ptr %c, ptr %class)
  %no.tensor = icmp eq ptr %tensor, null
  br i1 %no.tensor, label %none, label %fill
fill:
  %type.at = getelementptr ptr, ptr %view, i64 0
  %type = load ptr, ptr %type.at, align 8
  %strides.at = getelementptr ptr, ptr %view, i64 1
  %strides = load ptr, ptr %strides.at, align 8
  %offset.at = getelementptr ptr, ptr %view, i64 2
  %offset = load ptr, ptr %offset.at, align 8
  %layout.at = getelementptr ptr, ptr %view, i64 3
  %layout = load ptr, ptr %layout.at, align 8
  call void @put(ptr %c, i32 43, ptr %tensor, ptr %buffer)
  call void @put(ptr %c, i32 44, ptr %tensor, ptr %type)
  call void @put(ptr %c, i32 45, ptr %tensor, ptr %strides)
  call void @put(ptr %c, i32 46, ptr %tensor, ptr %offset)
  call void @put(ptr %c, i32 47, ptr %tensor, ptr %layout)
  call void @put(ptr %c, i32 48, ptr %tensor, ptr %doubt)
  %tuple.at = getelementptr ptr, ptr %c, i64 5
  %tuple.new = load ptr, ptr %tuple.at, align 8
  %tuple = call ptr %tuple.new(i64 1)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %lost, label %set
set:
  %set.at = getelementptr ptr, ptr %c, i64 6
  %set.item = load ptr, ptr %set.at, align 8
  %set.done = call i32 %set.item(ptr %tuple, i64 0, ptr %tensor)
  ret ptr %tuple
lost:
  call void @drop(ptr %c, ptr %tensor)
  br label %none
none:
  ret ptr null
}

; Owned: the replay of a key of a plan and so many layouts; null where none is kept here.
define internal ptr @found(ptr %c, ptr %plan, ptr %layouts, i64 %count) {
entry:
  %whole = add i64 %count, 1
  %tuple.at = getelementptr ptr, ptr %c, i64 5
  %tuple.new = load ptr, ptr %tuple.at, align 8
  %set.at = getelementptr ptr, ptr %c, i64 6
  %set.item = load ptr, ptr %set.at, align 8
  %key = call ptr %tuple.new(i64 %whole)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %error, label %begin
begin:
  call void @hold(ptr %c, ptr %plan)
  %set.first = call i32 %set.item(ptr %key, i64 0, ptr %plan)
  br label %next
next:
  %n = phi i64 [ 0, %begin ], [ %then, %part ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %part, label %look
part:
  %layout.at = getelementptr ptr, ptr %layouts, i64 %n
  %layout = load ptr, ptr %layout.at, align 8
  call void @hold(ptr %c, ptr %layout)
  %then = add i64 %n, 1
  %set.next = call i32 %set.item(ptr %key, i64 %then, ptr %layout)
  br label %next
look:
  %cache.at = getelementptr ptr, ptr %c, i64 31
  %cache = load ptr, ptr %cache.at, align 8
  %young = call ptr @slot(ptr %c, i32 59, ptr %cache)
  %get.at = getelementptr ptr, ptr %c, i64 8
  %get.item = load ptr, ptr %get.at, align 8
  %replay = call ptr %get.item(ptr %young, ptr %key)
  %no.replay = icmp eq ptr %replay, null
  br i1 %no.replay, label %missed, label %is.known
is.known:
  call void @hold(ptr %c, ptr %replay)
  call void @drop(ptr %c, ptr %key)
  ret ptr %replay
missed:
  call void @drop(ptr %c, ptr %key)
  br label %error
error:
  call void @forget_error(ptr %c)
  ret ptr null
}
