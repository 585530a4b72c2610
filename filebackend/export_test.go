package filebackend

var (
	FileName = fileName
	NameOf   = nameOf
	URLDir   = urlDir
)
