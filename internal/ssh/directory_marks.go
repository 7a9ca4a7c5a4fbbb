package ssh

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// The script prints, for each name in the directory at its argument, the mark of what is there, and another time its
// filesystem; then that this was all of them. It prints nothing of a directory that the user may not list. One that is
// absent has no files. It doesn't look at directories in it, which a program such as find does: storage that hangs may
// be mounted at one.
const (
	listedMark     = "virtfleet-listed-mark:"
	filesystemMark = "virtfleet-listed-filesystem:"
	allListed      = "virtfleet-all-listed:"

	listScript = lookScript + `export LC_ALL=C; each() { printf "%s\n" "$names" | sed -n "s,^\(.*[^/]\)\$,./\1,p" | ` +
		`xargs -r -d "\n" stat -L "$@"; case $? in 0|123) ;; *) exit 1;; esac; }; ` +
		`d=$1; look "$d"; case $s in *` + fileUnknown + `*) exit 1;; *` + fileThere + `*) ` +
		`test -d "$d" && test -r "$d" && test -x "$d" && cd "$d" && stat --printf "" . && ` +
		`names=$(ls -1ApU --quoting-style=literal) || exit 1; ` +
		`each --printf "` + listedMark + `%f:%s:%b:%B:%i:%.9Y:%.9Z:%n\000"; ` +
		`each -f --printf "` + filesystemMark + `%t:%n\000";; esac; ` +
		`printf "` + allListed + `\000"`
	// listLimit is more than the marks of some ten thousand files.
	listLimit = 8 << 20
)

// DirectoryMarks is [Client.FileMarks] for all files in a directory. Programs on the host (ls, stat) look.
//
// Errors are those of [Client.Exist]. A directory that can't be listed, or that has too many files, also is an error.
func (c *Client) DirectoryMarks(ctx context.Context, dir string) (map[string]FileMark, error) {
	const op = "listing a directory"
	if err := checkFilePath(dir); err != nil {
		return nil, &Error{Host: c.cfg.Host, Op: op, Kind: ErrConfig, Err: err}
	}
	text, err := throughLink(ctx, c, op, commandLimit, func(ctx context.Context, l *link) ([]byte, error) {
		return l.commandOutput(ctx, boundedScript(listScript, commandLimit, dir), listLimit)
	})
	if err != nil {
		return nil, err
	}
	marks, filesystems, all := map[string]string{}, map[string]string{}, false
	for record := range strings.SplitSeq(string(text), "\x00") {
		// The output of a login shell comes before the first one.
		if _, mark, ok := strings.Cut(record, listedMark); ok {
			mode, mark, _ := strings.Cut(mark, ":")
			if parts := strings.SplitN(mark, ":", 7); len(parts) == 7 && isFile(mode) {
				marks[parts[6]] = strings.TrimSuffix(mark, ":"+parts[6])
			}
		} else if _, mark, ok := strings.Cut(record, filesystemMark); ok {
			kind, name, _ := strings.Cut(mark, ":")
			filesystems[name] = kind
		} else if strings.HasSuffix(record, allListed) {
			all = true
		}
	}
	if !all {
		return nil, &Error{Host: c.cfg.Host, Op: op, Kind: ErrProgram, Err: fmt.Errorf("%w about %s", errNoAnswer, dir)}
	}
	files := make(map[string]FileMark, len(marks))
	for name, mark := range marks {
		if m, ok := parseFileMark(mark + ":" + filesystems[name]); ok {
			files[path.Join(dir, name)] = m
		}
	}
	return files, nil
}

// isFile reports whether the mode that stat prints in hexadecimal is that of a regular file.
func isFile(mode string) bool {
	m, err := strconv.ParseUint(mode, 16, 32)
	return err == nil && m&syscall.S_IFMT == syscall.S_IFREG
}
