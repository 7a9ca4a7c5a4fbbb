#!/usr/bin/env bash
# The rules that are about text inside of calls, which no linter looks into.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

failed=0
# refuse <pattern> <what to do instead>
refuse() {
	if grep -rnE --include='*.go' --exclude='*_test.go' "$1" main.go internal; then
		echo "$2" >&2
		failed=1
	fi
}
refuse 'strings\.(Contains|HasPrefix|HasSuffix|EqualFold)\([A-Za-z.]*[eE]rr\.Error\(\)' \
	"Don't decide by what an error says: use errors.Is or errors.As."
refuse '[eE]rr\.Error\(\) [!=]= ' "Don't decide by what an error says: use errors.Is or errors.As."
refuse '"[^"]*%[+#]v' "Don't print whole structures, one may hold a secret: name the fields."
exit $failed
