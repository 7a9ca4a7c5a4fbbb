package libvirt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// header makes the beginning of a qcow2 image, which is based on another one unless backing is "".
func header(version uint32, features uint64, backing, format string) []byte {
	length := uint32(qcow2HeaderV2)
	if version > 2 {
		length = qcow2LengthAt + 4
	}
	data := append([]byte(qcow2Magic), bytes.Repeat([]byte{0}, int(length)-len(qcow2Magic))...)
	binary.BigEndian.PutUint32(data[4:], version)
	if version > 2 {
		binary.BigEndian.PutUint64(data[qcow2HeaderV2:], features)
		binary.BigEndian.PutUint32(data[qcow2LengthAt:], length)
	}
	for kind, said := range map[uint32]string{0x6803f857: "names", qcow2BackingFormat: format} {
		data = binary.BigEndian.AppendUint32(data, kind)
		data = binary.BigEndian.AppendUint32(data, uint32(len(said)))
		data = append(data, said...)
		data = append(data, make([]byte, (8-len(said)%8)%8)...)
	}
	data = append(data, make([]byte, 8)...)
	if backing != "" {
		binary.BigEndian.PutUint64(data[8:], uint64(len(data)))
		binary.BigEndian.PutUint32(data[16:], uint32(len(backing)))
	}
	return append(data, backing...)
}

// What an image is based on is in its header, and one that ends before it is no image.
func TestParseHeader(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		data []byte
		want ImageHeader
		err  error
	}{
		"empty":         {},
		"something":     {data: make([]byte, 4096)},
		"version 2":     {data: header(2, 0, "/base", "qcow2"), want: ImageHeader{true, "/base", "qcow2"}},
		"version 3":     {data: header(3, 0, "base", "raw"), want: ImageHeader{true, "base", "raw"}},
		"no base":       {data: header(3, 0, "", ""), want: ImageHeader{QCOW2: true}},
		"no format":     {data: header(3, 0, "base", ""), want: ImageHeader{true, "base", ""}},
		"only magic":    {data: []byte(qcow2Magic), err: ErrInternal},
		"corrupt":       {data: header(3, qcow2Corrupt, "", ""), err: ErrUnsupported},
		"external data": {data: header(3, qcow2ExternalData, "", ""), err: ErrUnsupported},
	} {
		got, err := parseHeader(tt.data)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", name, err, tt.err)
		} else if err == nil && !cmp.Equal(*got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, *got, tt.want)
		}
	}
	whole := header(3, 0, "/base", "qcow2")
	for end := len(qcow2Magic); end < len(whole); end++ {
		if got, err := parseHeader(whole[:end]); !errors.Is(err, ErrInternal) {
			t.Errorf("the first %d of %d bytes are %+v, %v", end, len(whole), got, err)
		}
	}
	for backing, want := range map[string]string{
		"/a/b": "/a/b", "b": "/images/b", "../b": "/b", "json:{}": "", "nbd:host:10809": "",
	} {
		if got := (&ImageHeader{Backing: backing}).BackingPath("/images/top"); got != want {
			t.Errorf("%q is %q, want %q", backing, got, want)
		}
	}
}
