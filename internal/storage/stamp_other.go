//go:build !linux

package storage

import (
	"os"
	"time"
)

// changeTime is not known.
func changeTime(os.FileInfo) time.Time { return time.Time{} }
