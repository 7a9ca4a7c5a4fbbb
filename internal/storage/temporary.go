package storage

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// createCopy creates the temporary file of a copy. Where the system can, its name is removed at once, so that a killed
// process leaves no file.
func (i *Image) createCopy() (err error) {
	if i.file, err = os.CreateTemp("", "virtfleet-image-"); err != nil {
		return explainTemporary(os.TempDir(), err)
	}
	// Windows doesn't remove the name of an open file.
	i.named = os.Remove(i.file.Name()) != nil
	return nil
}

// Close removes the fetched file.
func (i *Image) Close() error {
	err := i.file.Close()
	if i.named {
		err = errors.Join(err, os.Remove(i.file.Name()))
	}
	return err
}

// explainTemporary adds the remedy to err if it says that the directory of the temporary file has no space left.
func explainTemporary(dir string, err error) error {
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return fmt.Errorf("directory %q on this computer, to which images are downloaded and unpacked, is full. Set the "+
		"environment variable TMPDIR to a directory with enough space, or free space there: %w", dir, err)
}
