package storage

import (
	"os"
	"syscall"
	"time"
)

// changeTime is when anything about a file was changed.
func changeTime(info os.FileInfo) time.Time {
	if is, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(is.Ctim.Unix())
	}
	return time.Time{}
}
