package ssh

import (
	"cmp"
	"fmt"
	"strings"
)

// evaluateMatch evaluates the criteria of a Match line, all of which must hold. A criterion that this package can't
// evaluate is an error, unless an earlier one has failed: ignoring it could send the user's key or password to the
// wrong host.
func (r *configReader) evaluateMatch(args []string, reachable bool) (bool, error) {
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
			if result, err = r.evaluateCriterion(name, value); err != nil {
				return false, err
			}
		}
		matched = matched && result != negated
	}
	return matched, nil
}

func (r *configReader) evaluateCriterion(name, value string) (bool, error) {
	patterns := strings.Split(value, ",")
	switch name {
	case "host":
		return matchPatterns(r.hostName(), patterns), nil
	case "originalhost":
		return matchPatterns(r.original, patterns), nil
	case "user":
		return matchHost(r.userName(), patterns), nil
	case "localuser":
		return matchHost(r.localUser, patterns), nil
	case "exec":
		return r.execSucceeds(value)
	}
	return false, fmt.Errorf("match %s is not supported (all, final, exec, host, originalhost, user and localuser are);"+
		" use another file as config_file, or \"none\"", name)
}

// hostName returns the host's name, as far as it is known at this point.
func (r *configReader) hostName() string {
	if name := r.options.firstArgument("hostname"); name != "" {
		return strings.ReplaceAll(name, "%h", r.original)
	}
	return r.original
}

func (r *configReader) userName() string {
	return cmp.Or(r.user, r.options.firstArgument("user"), r.localUser)
}

// execSucceeds reports whether a command succeeds. It runs each command once.
func (r *configReader) execSucceeds(command string) (bool, error) {
	port, err := configInt(r.options, "port", defaultPort)
	if err != nil {
		return false, err
	}
	if r.port != 0 {
		port = r.port
	}
	so := &target{
		alias: r.original, host: r.hostName(), port: port, user: r.userName(), home: r.home, localUser: r.localUser,
		jump: r.options.firstArgument("proxyjump"),
		// While ssh reads its files, %k is the host's name, elsewhere the name as the user wrote it.
		hostKeyAlias: cmp.Or(r.options.firstArgument("hostkeyalias"), r.hostName()),
	}
	if command, err = so.expandTokens(command); err != nil {
		return false, fmt.Errorf("match exec: %w", err)
	}
	succeeded, known := r.ran[command]
	if !known {
		if succeeded, err = shellSucceeds(r.ctx, command); err != nil {
			return false, err
		}
		r.ran[command] = succeeded
	}
	return succeeded, nil
}

// matchPatterns reports whether a name matches one of the patterns and none of the negated patterns, ignoring case.
func matchPatterns(name string, patterns []string) bool {
	lower := make([]string, len(patterns))
	for i, pattern := range patterns {
		lower[i] = strings.ToLower(pattern)
	}
	return matchHost(strings.ToLower(name), lower)
}

// matchHost reports whether a host name, as it was typed, matches the patterns. Unlike in matchPatterns, case counts.
func matchHost(name string, patterns []string) bool {
	matched := false
	for _, pattern := range patterns {
		pattern, negated := strings.CutPrefix(pattern, "!")
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
