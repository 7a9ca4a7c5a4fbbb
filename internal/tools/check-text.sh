#!/usr/bin/env bash
# The rules that are about text inside of calls, which no linter looks into.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

failed=0
# refuse <pattern> <what to do instead> [<folder>]: in main.go and internal, or only in that folder.
refuse() {
	local where=(main.go internal)
	[ $# -lt 3 ] || where=("$3")
	if grep -rnE --include='*.go' --exclude='*_test.go' "$1" "${where[@]}"; then
		echo "$2" >&2
		failed=1
	fi
}
refuse 'strings\.(Contains|HasPrefix|HasSuffix|EqualFold)\([A-Za-z.]*[eE]rr\.Error\(\)' \
	"Don't decide by what an error says: use errors.Is or errors.As."
refuse '[eE]rr\.Error\(\) [!=]= ' "Don't decide by what an error says: use errors.Is or errors.As."
refuse '"[^"]*%[+#]v' "Don't print whole structures, one may hold a secret: name the fields."

refuse 'stringvalidator\.OneOf\(' 'Use value.Among, whose message is that of all enumerations.' internal/provider

# Words of users' texts: in strings, not in comments.
refuse '^[^/]*"[^"/]*\b([Ss]ome|[Nn]o)body\b' \
	"Say who: a user, another run, another tool; or say \"unknown\"." internal/provider
refuse '^[^/]*"[^"]*(Omitted:|Default [^A-Za-z0-9+ ])' 'Write "Default: ..." or "Default for new ...: ...".' internal/provider
refuse '^[^/]*"[^"]*(if need be|goes on on|holes stay)' \
	"Write \"if necessary\", \"continues on\", \"sparse files stay sparse\"."

# Words of comments and texts. In the lab and the tools a machine may be a computer.
# refuse_word <pattern> <what to write instead> [<lines that are exempt>], in the files of "plain".
refuse_word() {
	if grep -nP "$1" "${plain[@]}" | grep -vE "${3:-^$}"; then
		echo "$2" >&2
		failed=1
	fi
}
mapfile -t plain < <(find internal -name '*.go' | grep -vE '^internal/(lab|tools)/' | sort)
refuse_word '//[^"`]*(?<![-/_])(?<![Vv]irtual )\b[Mm]achines?\b(?!([-_ ]types?\b|[=,] ?"|"|_|s? an? |\s+"pc))' \
	'Write "VM", or "computer": a machine is a machine type.' '// Machines? (are|is) |// machine is the observed'
# Tests quote texts of the fleet.
refuse_word '["`][^"`<]*\b(a|the|this|that|each|every|new|its|all|no|of) machines?\b(?! type)' \
	'Write "VM": a machine is a machine type.' '_test\.go:'

# Texts that users read, in all packages.
mapfile -t plain < <(find internal -name '*.go' ! -name '*_test.go' | grep -vE '^internal/(lab|tools)/' | sort)
refuse_word '^(?![\t ]*//)[^"`]*"[^"]*\b([Ss]ome|[Nn]o|[Aa]ny|[Ee]very)body\b' \
	'Say who: a user, another run, another tool, no host.' '// '
refuse_word '^(?![\t ]*//)[^"`]*"[^"]*\b(emptied|emptying|in the way|in their way|anew|whoever|going on again|to and fro|mended|as of now|by now"|at present)\b' \
	'Write "drained", "blocks", "created again", "continue", "back and forth", "repair", "now", or name who.' '// '

refuse_word '^(?![\t ]*//)[^"`]*"[^"]*\b([Ss]ee to it|once at least|comes? to an end|are wanted)\b' \
	'Write "make sure", "at least once", "ends" or "needs".' '// '

refuse_word '^(?![\t ]*//)[^"`]*["`][^"]*([Ll]eftover)' 'Write "stale" or "stale definition".' '// '

# Words of comments, in tests too.
mapfile -t plain < <(find internal main.go -name '*.go' | sort)
refuse_word '(?<!User )\b([Ss]ome|[Nn]o|[Aa]ny|[Ee]very)body\b' 'Say who: a user, another run, another tool, no host.'
mapfile -t plain < <(find internal main.go -name '*.go' | grep -vE '^internal/(lab|tools)/' | sort)
refuse_word '(//|")[^"]*\b(emptied|in the way|beside)\b' 'Write "drained", "blocks", "in addition to" or "together with".'
refuse_word '(//|")[^"]*\b(([Gg]o|[Gg]oes|[Ww]ent) on|(stands?|stood) still)\b' \
	'Write "continues", "keeps ...", "is paused", "hangs" or "resumes".'
refuse_word '(//|")[^"]*\b([Mm]a(de|kes?|king)( it)? anew|(is|are|was|were)(n.t| not) let|[Ll]eftover definitions?)\b' \
	'Write "created again", "refused" or "stale definition".'
refuse_word '(//|")[^"]*\b(wins?|won) over\b|//.*\b(comes?|came) to an end\b' 'Write "takes precedence over" or "ends".'

# Pages, examples and scripts.
mapfile -t plain < <(find templates examples README.md CONTRIBUTING.md CHANGELOG.md GNUmakefile .golangci.yml \
	internal/tools internal/lab -type f \( -name '*.md' -o -name '*.tf' -o -name '*.yaml' -o -name '*.yml' -o -name '*.tmpl' \
	-o -name '*.sh' -o -name GNUmakefile \) | grep -v '/check-text.sh$' | sort)
refuse_word '\b([Ss]ome|[Nn]o|[Aa]ny|[Ee]very)body\b' 'Say who: a user, another run, another tool, no host.' \
	'^CONTRIBUTING\.md:[0-9]+:(\||  )'
refuse_word '\b(emptied|emptying|beside|anew|to and fro|goes on|go on with|if need be|as long as|(stands?|stood) still)\b|[Hh]oles stay|in the way\b' \
	'Write "drained", "compared with", "created again", "continues", "while", "blocks", "is paused".' '^CONTRIBUTING\.md:[0-9]+:(\||  )'
refuse_word '[Ll]eftover' 'Write "stale" or "stale definition".' '^CONTRIBUTING\.md:[0-9]+:(\||  )'
refuse_word '\b(wins? over|who goes|(is|are) waited for|stops? because)\b' \
	'Write "takes precedence over", "where each VM goes", "the provider waits for"; after a negation, "because" has two meanings.' \
	'^CONTRIBUTING\.md:[0-9]+:(\||  )'
exit $failed
