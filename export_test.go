package locker

// HolderOf makes the text of DefaultHolder.
var HolderOf = holderOf
