package storage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
)

// TestNamed: a copy is the image of its name if it has all of the image, also if a volume group has made it larger, or
// if all of the image is zeros. One that lacks a part isn't.
func TestNamed(t *testing.T) {
	t.Parallel()
	image := append(make([]byte, 3*sectorBytes), bytes.Repeat([]byte("x"), sectorBytes)...)
	zeros := make([]byte, 4*sectorBytes)
	nameOf := func(data []byte) string { return fmt.Sprintf("base-%x", sha256.Sum256(data))[:len("base-")+12] }
	for name, c := range map[string]struct {
		volume string
		data   []byte
		want   bool
	}{
		"whole":           {nameOf(image), image, true},
		"of odd length":   {nameOf(image[:2000]), image[:2000], true},
		"rounded up":      {nameOf(image), append(bytes.Clone(image), "what was there before"...), true},
		"zeros":           {nameOf(zeros), append(bytes.Clone(zeros), zeros...), true},
		"interrupted":     {nameOf(image), zeros, false},
		"other":           {nameOf(image), append(bytes.Clone(zeros), image...), false},
		"without content": {nameOf(image), nil, false},
		"no such name":    {"base", image, false},
	} {
		n := newNamed(c.volume)
		for at := 0; at < len(c.data); at += 700 { // Chunks don't end at sectors.
			if _, err := n.Write(c.data[at:min(len(c.data), at+700)]); errors.Is(err, errNamed) {
				break
			}
		}
		if n.is() != c.want {
			t.Errorf("%s: %v, want %v", name, n.is(), c.want)
		}
	}
}
