package storage

import (
	"os"
	"syscall"
	"time"
)

// changeTime returns the time of the last change of a file or its metadata.
func changeTime(info os.FileInfo) time.Time {
	if is, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(is.Ctim.Unix())
	}
	return time.Time{}
}
