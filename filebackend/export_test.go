package filebackend

var (
	FileName = fileName
	URLDir   = urlDir
)
