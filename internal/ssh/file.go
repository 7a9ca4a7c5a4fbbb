package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadEnd returns the last n bytes of the file at an absolute path on the host, or all of a shorter file. A program on
// the host (tail) reads it, with the permissions of the user who logs in.
//
// Errors are those of [Client.DialUnix] if the host can't be reached, and of kind ErrConfig for a path that isn't
// absolute. Any other error means that the host doesn't run the program, or that the program could not read the file.
func (c *Client) ReadEnd(ctx context.Context, path string, n int) ([]byte, error) {
	if err := checkFilePath(path); err != nil {
		return nil, &Error{Host: c.cfg.Host, Op: "reading a file", Kind: ErrConfig, Err: err}
	}
	line := boundedScript(`tail -c "$1" -- "$2"`, commandLimit, strconv.Itoa(n), path)
	text, err := throughLink(ctx, c, "reading "+path, commandLimit, func(ctx context.Context, l *link) ([]byte, error) {
		return l.commandOutput(ctx, line, n)
	})
	if err != nil {
		return nil, err
	}
	return text[max(0, len(text)-n):], nil
}

// checkFilePath refuses a path that has another meaning on the host than the caller intended.
func checkFilePath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\x00\n\r") {
		return configError("file path %q: must be absolute, on one line", path)
	}
	return nil
}

// The script's answers about a file: each on a line of its own.
const (
	fileThere   = "virtfleet-file-there"
	fileAbsent  = "virtfleet-file-absent"
	fileUnknown = "virtfleet-file-unknown"
	fileSame    = "virtfleet-file-same"
	fileOther   = "virtfleet-file-other"
)

// lookScript defines a function that sets $s to what is known of the file at its argument, an absolute path. A file is
// absent if the nearest visible directory above it may be searched. For line breaks and exclamation marks, see
// link.connectScript.
const lookScript = `look() { s=` + fileThere + `; test -e "$1" || { s=` + fileUnknown + `; d=$1; ` +
	`while test -n "$d"; do test -L "$d" && break; case $d in */*) d=${d%/*};; *) break;; esac; ` +
	`test -e "${d:-/}" || continue; ` +
	`test -d "${d:-/}" && { test -x "${d:-/}" || break; }; s=` + fileAbsent + `; break; done; }; }; `

// existScript says for each of its arguments, which are absolute paths, whether there is such a file.
const existScript = lookScript + `for p; do look "$p"; echo; echo $s; done`

// maxArguments bounds the length of all arguments of one command. Linux accepts no single argument of 128 KiB, and the
// login shell gets the whole command as one argument.
const maxArguments = 64 << 10

// Exist returns, by absolute path, whether there is such a file on the host, as the user who logs in sees it. A path
// that this user may not see, or that leads through a dangling symbolic link, isn't in the result. A program on the
// host (sh) looks, and changes nothing.
//
// Errors are those of [Client.DialUnix] if the host can't be reached, and of kind ErrConfig for a path that isn't
// absolute, and ErrProgram if the host doesn't run the program.
func (c *Client) Exist(ctx context.Context, paths ...string) (map[string]bool, error) {
	for _, path := range paths {
		if err := checkFilePath(path); err != nil {
			return nil, &Error{Host: c.cfg.Host, Op: "looking for files", Kind: ErrConfig, Err: err}
		}
	}
	exist := make(map[string]bool, len(paths))
	err := inCommands(paths, func(some []string) error {
		said, err := c.askOfFiles(ctx, boundedScript(existScript, commandLimit, some...), len(some),
			fileThere, fileAbsent, fileUnknown)
		for i, word := range said {
			if word != fileUnknown {
				exist[some[i]] = word == fileThere
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return exist, nil
}

// sameFileScript says for each of its arguments but the first, which are absolute paths, whether it leads to the file
// of the first. Nothing leads to a file that is absent.
const sameFileScript = lookScript + `f=$1; shift; look "$f"; t=$s; for p; do look "$p"; case $t$s in ` +
	`*` + fileAbsent + `*) s=` + fileOther + `;; *` + fileUnknown + `*) s=` + fileUnknown + `;; ` +
	`*) s=` + fileOther + `; test "$p" -ef "$f" && s=` + fileSame + `;; esac; echo; echo $s; done`

// SameFile returns those of the absolute paths that lead to the file of path on the host, for example through a
// symbolic link, as the user who logs in sees it. A program on the host (sh) looks, and changes nothing.
//
// Errors are those of [Client.Exist]. An error of kind ErrUnseen says that of some of the paths it is unknown, as it is
// of those that are left out of [Client.Exist]. SameFile then also returns the paths that are known to lead there.
func (c *Client) SameFile(ctx context.Context, path string, paths ...string) ([]string, error) {
	const op = "comparing files"
	for _, path := range append([]string{path}, paths...) {
		if err := checkFilePath(path); err != nil {
			return nil, &Error{Host: c.cfg.Host, Op: op, Kind: ErrConfig, Err: err}
		}
	}
	var same, unseen []string
	err := inCommands(paths, func(some []string) error {
		line := boundedScript(sameFileScript, commandLimit, append([]string{path}, some...)...)
		said, err := c.askOfFiles(ctx, line, len(some), fileSame, fileOther, fileUnknown)
		for i, word := range said {
			switch word {
			case fileSame:
				same = append(same, some[i])
			case fileUnknown:
				unseen = append(unseen, some[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(unseen) > 0 {
		return same, &Error{Host: c.cfg.Host, Op: op, Kind: ErrUnseen, Err: fmt.Errorf(
			"whether %q is %q is unknown: the user who logs in doesn't see both", unseen[0], path)}
	}
	return same, nil
}

// sumLimit is how long the host may read a file to compute its checksum: an hour is enough for some hundred GiB.
const sumLimit = time.Hour

// sumMark begins the line with the checksum, and sumScript prints it for the file at its argument.
const (
	sumMark   = "virtfleet-sha256:"
	sumScript = `s=$(sha256sum <"$1") && echo && echo ` + sumMark + `"${s%% *}"`
)

// SHA256 returns the SHA-256 of the file at an absolute path on the host, in hexadecimal. A program on the host
// (sha256sum) reads it, with the permissions of the user who logs in.
//
// Errors are those of [Client.Exist]. A file that can't be read also is ErrProgram.
func (c *Client) SHA256(ctx context.Context, path string) (string, error) {
	return c.wordAbout(ctx, path, "computing a checksum", sumScript, sumLimit, sumMark, func(sum string) bool {
		raw, err := hex.DecodeString(sum)
		return err == nil && len(raw) == sha256.Size
	})
}

// idMark begins the line with the identity, and idScript prints it for the file at its argument.
const (
	idMark   = "virtfleet-file-id:"
	idScript = `s=$(stat -L -c %d:%i:%W -- "$1") && echo && echo ` + idMark + `"$s"`
)

// FileID returns what identifies the file or directory at an absolute path on the host, as long as its filesystem is
// mounted: the numbers of the device and of the inode, which other files may get later, and the time of its creation in
// seconds, which is 0 on filesystems that don't record it. It follows symbolic links. A program on the host (stat)
// looks.
//
// Errors are those of [Client.SHA256].
func (c *Client) FileID(ctx context.Context, path string) (string, error) {
	return c.wordAbout(ctx, path, "identifying a file", idScript, commandLimit, idMark, func(id string) bool {
		numbers := strings.Split(id, ":")
		return len(numbers) == 3 && !slices.ContainsFunc(numbers, func(s string) bool {
			_, err := strconv.ParseUint(s, 10, 64)
			return err != nil
		})
	})
}

// FileMark is what tells whether two hosts have the same content at one path, as far as a file tells that without being
// read.
type FileMark struct {
	Bytes, Allocated, Inode uint64
	// Modified is the time of the last change of the content, Changed that of the content or of what the file is; both in
	// seconds with nanoseconds: "1700000000.123456789".
	Modified, Changed string
	// Filesystem is the number of the kind of filesystem, in hexadecimal: "6969" is NFS.
	Filesystem string
}

// The script prints a line with the mark of each of its arguments, or without one if that isn't a file that can be
// seen.
const (
	markMark   = "virtfleet-file-mark:"
	markScript = `for p; do m=; test -f "$p" && m=$(LC_ALL=C stat -L -c %s:%b:%B:%i:%.9Y:%.9Z -- "$p") && ` +
		`m=$m:$(LC_ALL=C stat -L -f -c %t -- "$p") || m=; echo; echo ` + markMark + `"$m"; done`
	markLength = 200
)

// FileMarks returns the marks of the files at absolute paths on the host, as the user who logs in sees them. What isn't
// a file, or can't be seen, isn't in the result. It follows symbolic links. A program on the host (stat) looks.
//
// Errors are those of [Client.Exist].
func (c *Client) FileMarks(ctx context.Context, paths ...string) (map[string]FileMark, error) {
	const op = "comparing files"
	for _, path := range paths {
		if err := checkFilePath(path); err != nil {
			return nil, &Error{Host: c.cfg.Host, Op: op, Kind: ErrConfig, Err: err}
		}
	}
	marks := make(map[string]FileMark, len(paths))
	err := inCommands(paths, func(some []string) error {
		line := boundedScript(markScript, commandLimit, some...)
		text, err := throughLink(ctx, c, op, commandLimit, func(ctx context.Context, l *link) ([]byte, error) {
			return l.commandOutput(ctx, line, len(some)*markLength)
		})
		if err != nil {
			return err
		}
		n := 0
		for word := range strings.FieldsSeq(string(text)) { // The output of a login shell comes before.
			if said, marked := strings.CutPrefix(word, markMark); marked && n < len(some) {
				if mark, ok := parseFileMark(said); ok {
					marks[some[n]] = mark
				}
				n++
			}
		}
		if n != len(some) {
			return &Error{Host: c.cfg.Host, Op: op, Kind: ErrProgram, Err: errNoAnswer}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return marks, nil
}

// parseFileMark reads what the script prints of a file.
func parseFileMark(said string) (m FileMark, ok bool) {
	parts := strings.Split(said, ":")
	if len(parts) != 7 {
		return m, false
	}
	var numbers [4]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(parts[i], 10, 64); err != nil {
			return m, false
		}
	}
	return FileMark{
		Bytes: numbers[0], Allocated: numbers[1] * numbers[2], Inode: numbers[3], Modified: parts[4], Changed: parts[5],
		Filesystem: parts[6],
	}, true
}

// wordAbout runs a script about the file at an absolute path, and returns the word after the mark.
func (c *Client) wordAbout(
	ctx context.Context, path, op, script string, limit time.Duration, mark string, valid func(word string) bool,
) (string, error) {
	if err := checkFilePath(path); err != nil {
		return "", &Error{Host: c.cfg.Host, Op: op, Kind: ErrConfig, Err: err}
	}
	text, err := throughLink(ctx, c, op, limit, func(ctx context.Context, l *link) ([]byte, error) {
		return l.commandOutput(ctx, boundedScript(script, limit, path), len(mark)+2*sha256.Size+2)
	})
	if err != nil {
		return "", err
	}
	for word := range strings.FieldsSeq(string(text)) { // The output of a login shell comes before.
		if word, marked := strings.CutPrefix(word, mark); marked && valid(word) {
			return word, nil
		}
	}
	return "", &Error{Host: c.cfg.Host, Op: op, Kind: ErrProgram, Err: errNoAnswer}
}

// inCommands calls ask with as many of the paths at a time as fit into one command.
func inCommands(paths []string, ask func(some []string) error) error {
	for rest := paths; len(rest) > 0; {
		n, length := 0, 0
		for n < len(rest) && (n == 0 || length+len(shellQuote(rest[n])) < maxArguments) {
			length += len(shellQuote(rest[n])) + 1
			n++
		}
		if err := ask(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

var errNoAnswer = errors.New("the host's shell gave no answer")

// askOfFiles runs a script that says one of the words about each of n files, and returns what it says.
func (c *Client) askOfFiles(ctx context.Context, line string, n int, words ...string) ([]string, error) {
	const op = "looking for files"
	text, err := throughLink(ctx, c, op, commandLimit, func(ctx context.Context, l *link) ([]byte, error) {
		return l.commandOutput(ctx, line, n*2*len(fileUnknown))
	})
	if err != nil {
		return nil, err
	}
	var said []string
	for word := range strings.FieldsSeq(string(text)) { // The output of a login shell comes before.
		if slices.Contains(words, word) {
			said = append(said, word)
		}
	}
	if len(said) != n {
		return nil, &Error{Host: c.cfg.Host, Op: op, Kind: ErrProgram, Err: errNoAnswer}
	}
	return said, nil
}

// commandOutput runs a program on the host and returns its output, up to n bytes, after the output of a login shell.
func (l *link) commandOutput(ctx context.Context, line string, n int) ([]byte, error) {
	cmd, err := l.startCommand(ctx, line)
	if errors.Is(err, errNoExec) || isOpenError(err) && !errors.Is(err, ErrSessions) {
		return nil, &kindError{kind: ErrProgram, err: err}
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = cmd.channel.Close() }()
	unblock := context.AfterFunc(ctx, func() { _ = cmd.channel.Close() })
	defer unblock()
	// Endless output is cut off.
	text, err := io.ReadAll(io.LimitReader(cmd.channel, int64(n)+maxPreamble))
	if err != nil {
		return nil, err
	}
	if len(text) == n+maxPreamble {
		return nil, errors.New("the host sends more than it was asked for")
	}
	if err := cmd.awaitEnd(ctx, l); err != nil {
		return nil, err
	}
	if outcome := cmd.exitText(); outcome != "" && cmd.wasKilled() {
		return nil, errors.New(outcome)
	} else if outcome != "" {
		return nil, &kindError{kind: ErrProgram, err: errors.New(outcome)}
	}
	return text, nil
}
