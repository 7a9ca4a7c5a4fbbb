package storage

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrNoImage says that the content can't be the image of a disk.
var ErrNoImage = fmt.Errorf("%w: this is no disk image", libvirt.ErrInvalid)

// isPage reports whether the content is an HTML page. A server may answer with one in place of a file, and say that
// all went well: a page that asks to log in, or one about an error.
func isPage(data []byte) bool {
	data = bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(data[:min(len(data), 512)], []byte("\xef\xbb\xbf"))))
	return bytes.HasPrefix(data, []byte("<!doctype html")) || bytes.HasPrefix(data, []byte("<html"))
}

// firstLine returns the beginning of a text.
func firstLine(data []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(data), []byte("\n"))
	return strings.ToValidUTF8(string(line[:min(len(line), 60)]), "?")
}

// Oddity returns what is unusual about a raw image of that size, "" if nothing is. QEMU rounds the size up to sectors.
func Oddity(format string, size uint64) string {
	switch {
	case format != "raw" || size > 0 && size%sectorBytes == 0:
		return ""
	case size < sectorBytes:
		return fmt.Sprintf("it has %d bytes, which is less than one sector of a disk", size)
	default:
		return fmt.Sprintf("it has %d bytes, which isn't a multiple of the %d bytes of a disk's sectors", size, sectorBytes)
	}
}
