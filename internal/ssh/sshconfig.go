package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// maxIncludeDepth is how deep files may include each other, as in OpenSSH; a deeper include is a loop.
const maxIncludeDepth = 16

// options are the options of ssh_config(5) for one host: the arguments of each keyword, in lower case. The library
// kevinburke/ssh_config refuses "Match exec" and most other criteria, so the files are read here.
type options map[string][]string

// firstArgument returns the first argument of a keyword, or "".
func (o options) firstArgument(keyword string) string {
	if args := o[keyword]; len(args) > 0 {
		return args[0]
	}
	return ""
}

// aliases are former names of keywords.
var aliases = map[string]string{
	"challengeresponseauthentication": "kbdinteractiveauthentication",
	"skeyauthentication":              "kbdinteractiveauthentication",
	"tisauthentication":               "kbdinteractiveauthentication",
	"dsaauthentication":               "pubkeyauthentication",
	"pubkeyacceptedkeytypes":          "pubkeyacceptedalgorithms",
}

// setFirst records a keyword as ssh does: the first value counts, but identity files accumulate.
func (o options) setFirst(keyword string, args []string) {
	if alias := aliases[keyword]; alias != "" {
		keyword = alias
	}
	switch keyword {
	case "identityfile", "certificatefile":
		if !slices.Contains(o[keyword], args[0]) {
			o[keyword] = append(o[keyword], args[0])
		}
		return
	case "proxyjump":
		if _, set := o["proxycommand"]; set {
			return
		}
	case "proxycommand":
		if _, set := o["proxyjump"]; set {
			return
		}
	}
	if _, set := o[keyword]; !set {
		o[keyword] = args
	}
}

// configReader reads ssh_config files for one host.
type configReader struct {
	ctx       context.Context // Bounds the commands of Match exec.
	home      string
	original  string // The host as the user named it.
	user      string // The user that was requested explicitly, or "".
	port      int    // The port that was requested explicitly, or 0.
	localUser string
	options   options
	guarded   bool            // Whether the permissions of files are checked.
	ran       map[string]bool // The results of commands of Match exec.
	final     bool            // Whether this is the last pass, in which "Match final" holds.
	sawFinal  bool
}

// configFile is a file to read, and the directory of its relative includes.
type configFile struct {
	path       string
	includeDir string
	required   bool
	guarded    bool // Whether only its user may be able to write to it and its includes.
}

// readFiles reads the files, a second time if a block is to be applied after all others ("Match final").
func (r *configReader) readFiles(files []configFile) error {
	r.options = options{}
	r.ran = map[string]bool{}
	for range 2 {
		for _, f := range files {
			r.guarded = f.guarded
			err := r.readFile(f.path, f.includeDir, true, 0)
			if errors.Is(err, fs.ErrNotExist) && !f.required {
				continue
			}
			if err != nil {
				return err
			}
		}
		if !r.sawFinal {
			return nil
		}
		r.final = true
	}
	return nil
}

// readFile reads one file. An inactive file, included by a block that doesn't match, is only checked.
func (r *configReader) readFile(path, includeDir string, active bool, depth int) error {
	if depth > maxIncludeDepth {
		return configError("%s: included more than %d files deep", path, maxIncludeDepth)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return &kindError{kind: ErrConfig, err: err}
	}
	if info, err := os.Stat(path); err == nil && r.guarded {
		if err := checkConfigPermissions(path, info); err != nil {
			return configError("%s: %w", path, err)
		}
	}
	part := &configPart{includeDir: includeDir, depth: depth, reachable: active, active: active}
	for i, line := range strings.Split(string(data), "\n") {
		keyword, args, err := splitConfigLine(line)
		if err == nil && keyword != "" {
			err = r.applyLine(part, keyword, args)
		}
		if err != nil {
			if errors.Is(err, ErrConfig) {
				return err // An included file, whose error already names it.
			}
			return configError("%s:%d: %w", path, i+1, err)
		}
	}
	return nil
}

// configPart is where in a file the reader is.
type configPart struct {
	includeDir string // The directory of relative includes.
	depth      int    // How many files include this one, one another.
	reachable  bool   // Whether blocks of the file may apply: it isn't included by one that doesn't.
	active     bool   // Whether the lines that follow apply.
}

// applyLine applies one line.
func (r *configReader) applyLine(part *configPart, keyword string, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s without a value", keyword)
	}
	switch keyword {
	case "host":
		part.active = part.reachable && matchHost(r.original, args)
	case "match":
		matched, err := r.evaluateMatch(args, part.reachable)
		part.active = part.reachable && matched
		return err
	case "include":
		for _, pattern := range args {
			if err := r.includeFiles(pattern, part.includeDir, part.active, part.depth); err != nil {
				return err
			}
		}
	default:
		if part.active {
			r.options.setFirst(keyword, args)
		}
	}
	return nil
}

func (r *configReader) includeFiles(pattern, dir string, active bool, depth int) error {
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		pattern = filepath.Join(r.home, rest)
	} else if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(dir, pattern)
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("include %s: %w", pattern, err)
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			continue
		}
		if err := r.readFile(path, dir, active, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// commandKeywords have the rest of their line, unchanged, as a command for a shell.
var commandKeywords = []string{"proxycommand", "localcommand", "remotecommand", "knownhostscommand"}

// splitConfigLine splits a line into its keyword, in lower case, and its arguments, which may be quoted.
func splitConfigLine(line string) (keyword string, args []string, err error) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", nil, nil
	}
	end := strings.IndexFunc(line, func(c rune) bool { return c == '=' || unicode.IsSpace(c) })
	if end < 0 {
		return strings.ToLower(line), nil, nil
	}
	keyword = strings.ToLower(line[:end])
	rest := strings.TrimSpace(line[end:])
	rest = strings.TrimSpace(strings.TrimPrefix(rest, "="))
	if slices.Contains(commandKeywords, keyword) {
		if rest == "" {
			return keyword, nil, nil
		}
		return keyword, []string{rest}, nil
	}
	args, err = splitArguments(rest)
	return keyword, args, err
}

// splitArguments splits at white space outside quotes, up to a comment.
func splitArguments(s string) ([]string, error) {
	var args []string
	var word strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && strings.IndexByte(`"'\`, s[i+1]) >= 0:
			i++
			word.WriteByte(s[i])
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			if inWord {
				args = append(args, word.String())
				word.Reset()
				inWord = false
			}
		case c == '#' && !inWord:
			return args, nil
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("quote without its end")
	}
	if inWord {
		args = append(args, word.String())
	}
	return args, nil
}
