package storage

import (
	"regexp"
	"strings"
)

// Ref names a volume.
type Ref struct{ Pool, Name string }

// ParseRef parses "<pool>/<name>", the id of a volume or of an image's copy. It returns nil for other texts, such as a
// path.
func ParseRef(id string) *Ref {
	pool, name, _ := strings.Cut(id, "/")
	if pool == "" || name == "" {
		return nil
	}
	return &Ref{Pool: pool, Name: name}
}

// String returns the id.
func (r Ref) String() string { return r.Pool + "/" + r.Name }

var namedByContent = regexp.MustCompile(`-[0-9a-f]{12}$`)

// NamedByContent reports whether a volume has the name of an image's copy: its content can be checked.
func (r Ref) NamedByContent() bool { return namedByContent.MatchString(r.Name) }
