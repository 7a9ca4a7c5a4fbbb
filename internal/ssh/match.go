package ssh

import (
	"fmt"
	"strings"
)

// match evaluates the criteria of a Match line, all of which must hold. A criterion that this package can't evaluate
// is an error, unless an earlier one has failed: ignoring it could send the user's key or password to the wrong host.
func (r *configReader) match(args []string, reachable bool) (bool, error) {
	matched := reachable
	for len(args) > 0 {
		criterion := args[0]
		args = args[1:]
		name, negated := strings.CutPrefix(criterion, "!")
		name, value, hasValue := strings.Cut(name, "=")
		name = strings.ToLower(name)
		var result bool
		switch name {
		case "all":
			result = true
		case "canonical": // Host names are never canonicalized here.
		case "final":
			r.sawFinal = r.sawFinal || matched
			result = r.final
		default:
			if !hasValue {
				if len(args) == 0 {
					return false, fmt.Errorf("match %s without a value", name)
				}
				value, args = args[0], args[1:]
			}
			if !matched {
				continue
			}
			var err error
			if result, err = r.criterion(name, value); err != nil {
				return false, err
			}
		}
		matched = matched && result != negated
	}
	return matched, nil
}

func (r *configReader) criterion(name, value string) (bool, error) {
	var subject string
	switch name {
	case "host":
		subject = r.original
		if name := r.options.first("hostname"); name != "" {
			subject = strings.ReplaceAll(name, "%h", r.original)
		}
	case "originalhost":
		subject = r.original
	case "user":
		subject = r.user
		if subject == "" {
			subject = r.options.first("user")
		}
		if subject == "" {
			subject = r.localUser
		}
	case "localuser":
		subject = r.localUser
	default:
		return false, fmt.Errorf("match %s is not supported (all, final, host, originalhost, user and localuser are);"+
			" use another file as config_file, or \"none\"", name)
	}
	return matchPatterns(subject, strings.Split(value, ",")), nil
}

// matchPatterns says whether a name matches one of the patterns and none of the negated ones.
func matchPatterns(name string, patterns []string) bool {
	name = strings.ToLower(name)
	matched := false
	for _, pattern := range patterns {
		pattern, negated := strings.CutPrefix(strings.ToLower(pattern), "!")
		if !matchWildcard(pattern, name) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// matchWildcard matches * and ? as ssh does; there are no other special characters.
func matchWildcard(pattern, name string) bool {
	star, retry := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, retry = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			retry++
			p, n = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
