package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
)

// Where the header of a bzImage says what is in it; see "The Linux/x86 Boot Protocol", version 2.08.
const (
	setupSectors  = 0x1f1
	headerMagic   = 0x202
	payloadOffset = 0x248
	payloadLength = 0x24c
	sector        = 512
)

// lz4Magic begins LZ4's legacy format, the only one that Linux uses.
var lz4Magic = []byte{0x02, 0x21, 0x4c, 0x18}

// uncompressed takes the kernel out of a bzImage. QEMU boots it by its PVH entry, and a guest without KVM is up in
// three quarters of the time: it has nothing to decompress and to relocate.
func uncompressed(image []byte) ([]byte, error) {
	if len(image) < payloadLength+4 || string(image[headerMagic:headerMagic+4]) != "HdrS" {
		return nil, errors.New("the kernel is no bzImage")
	}
	number := func(at int) int { return int(binary.LittleEndian.Uint32(image[at:])) }
	begin := (int(image[setupSectors])+1)*sector + number(payloadOffset)
	end := begin + number(payloadLength) - 4 // Without the size that the build appends.
	if begin > end || end > len(image) {
		return nil, errors.New("the kernel's bzImage is damaged")
	}
	if !bytes.HasPrefix(image[begin:], lz4Magic) {
		return nil, errors.New("the kernel isn't compressed with LZ4")
	}
	cmd := exec.Command("lz4", "-d", "-c") //nolint:noctx // It reads what it is given.
	cmd.Stdin = bytes.NewReader(image[begin:end])
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("decompressing the kernel: %w", err)
	}
	return out, nil
}
