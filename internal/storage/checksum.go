package storage

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// sumsLimit is far above the size of a checksum file.
const sumsLimit = 8 << 20

// hashes are the hash functions by the length of their checksums in hexadecimal.
var hashes = map[int]func() hash.Hash{2 * sha256.Size: sha256.New, 2 * sha512.Size: sha512.New}

// CheckChecksum says what is wrong with a checksum as users write it; nil if no error is found.
func CheckChecksum(checksum string) error {
	if isURL(checksum) {
		return nil
	}
	algorithm, sum, _ := strings.Cut(checksum, ":")
	_, ok := newHash(strings.ToLower(sum))
	if !ok || algorithm != "sha256" && algorithm != "sha512" || (algorithm == "sha256") != (len(sum) == 2*sha256.Size) {
		return fmt.Errorf("%w checksum: %q; write \"sha256:\" and 64 hexadecimal digits, \"sha512:\" and 128, or the URL of "+
			"a checksum file", libvirt.ErrInvalid, checksum)
	}
	return nil
}

func isURL(s string) bool { return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") }

// checksum returns the hash for the source and the expected checksum; nil if no checksum is given.
func (s Source) checksum(ctx context.Context) (h hash.Hash, want string, err error) {
	switch {
	case s.Checksum == "":
		return nil, "", nil
	case isURL(s.Checksum):
		want, err = s.announced(ctx)
	default:
		err = CheckChecksum(s.Checksum)
		_, want, _ = strings.Cut(strings.ToLower(s.Checksum), ":")
	}
	if err != nil {
		return nil, "", err
	}
	newSum, ok := newHash(want)
	if !ok {
		return nil, "", fmt.Errorf("%w: %q is no sum of SHA-256 or SHA-512", libvirt.ErrInvalid, want)
	}
	return newSum(), want, nil
}

// announced finds the image's checksum in a checksum file: "<sum>  <name>", "<sum> *<name>" or "SHA256 (<name>) =
// <sum>".
func (s Source) announced(ctx context.Context) (sum string, err error) {
	resp, err := get(ctx, s.Checksum)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, sumsLimit))
	for lines.Scan() {
		if sum, name := parseSum(lines.Text()); name == s.name() {
			return sum, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%w: %s names no %q", libvirt.ErrInvalid, redacted(s.Checksum), s.name())
}

func parseSum(line string) (sum, name string) {
	fields := strings.Fields(line)
	if len(fields) == 4 && fields[2] == "=" {
		sum, name = fields[3], strings.Trim(fields[1], "()")
	} else if len(fields) == 2 {
		sum, name = fields[0], strings.TrimPrefix(strings.TrimPrefix(fields[1], "*"), "./")
	}
	sum = strings.ToLower(sum)
	if _, ok := newHash(sum); !ok {
		return "", ""
	}
	return sum, name
}
