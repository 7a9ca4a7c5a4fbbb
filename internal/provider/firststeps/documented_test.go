package firststeps_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere are the commands of the documentation that TestAccFirstSteps doesn't run, and why.
var elsewhere = map[string]string{
	"make demo": "make test runs it; it checks its own story",

	"firewall-cmd --permanent --add-port=49152-49215/tcp": firewalld,
	"firewall-cmd --reload":                               firewalld,

	"mount -t virtiofs <target> /mnt": "is for a guest: TestAccGuest_hardware runs it there",
	"virt-install --osinfo win11":     "the profiles are compared with what it made, in testdata",

	"qemu-img amend --object secret,id=old,file=old --object secret,id=new,file=new \\\n" +
		"  -o encrypt.state=active,encrypt.new-secret=new --image-opts " +
		"driver=qcow2,encrypt.key-secret=old,file.filename=<file>": "TestAccVirtualMachine_encryptedOwnDisk runs it",

	"butane web.bu > web.ign":  "Debian 12 has no package of it",
	"cloud-init status --long": "is for a guest with cloud-init: TestAccVirtualMachine_cloudGuest runs it there",

	"virt-viewer -c qemu+ssh://root@kvm1.example.net/system web": screen,
	"virt-viewer -c <the host's URI> <VM>":                       screen,

	"CC=musl-gcc go build -tags libvirt_dlopen": "needs a compiler for musl, which this computer lacks",

	"terraform state rm": mention,
	"ceph auth get-key":  mention,

	"go test ./...": "runs tests like this one",
	"go test ./internal/domain -run readsEverySample -update":          "writes what the tests compare with",
	"make testacc PKG=./internal/provider/volume RUN='^TestAccVolume'": "runs tests like this one",

	"ipmitool -I lanplus -H kvm1-ipmi.example.net -U admin -a chassis power off":    board,
	"ipmitool -I lanplus -H kvm1-ipmi.example.net -U admin -a chassis power status": board,
}

// Reasons of several commands.
const (
	firewalld = "Debian's hosts have no firewalld"
	screen    = "opens a window, and this computer has no screen"
	board     = "the lab's hosts have no management board"
	mention   = "a sentence about the command, without what it is for"
)

// documented are the commands of the documentation, as they are printed, with the page of each.
func documented(t *testing.T) map[string]string {
	t.Helper()
	commands := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		page, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && page != "." && !strings.HasPrefix(page, "docs"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, command := range slices.Concat(fenced(string(text)), inSentences(string(text))) {
			commands[command] = page
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return commands
}

// fenced returns the commands in the blocks of a page that are marked as shell. A command may continue over several
// lines.
func fenced(page string) []string {
	var commands []string
	fence, indent, open := false, "", false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		bare := strings.TrimLeft(line, " ")
		switch {
		case !fence && bare == "```shell":
			fence, indent = true, line[:len(line)-len(bare)]
		case fence && bare == "```":
			fence, open = false, false
		case !fence || bare == "" || strings.HasPrefix(bare, "#"):
		case open:
			commands[len(commands)-1] += "\n" + strings.TrimPrefix(line, indent)
			open = continues(bare)
		default:
			commands = append(commands, strings.TrimPrefix(line, indent))
			open = continues(bare)
		}
	}
	return commands
}

// programs are those that sentences name commands of. Of the ones with subcommands, the two words alone are a mention,
// unless the second one is an option.
var programs = map[string]bool{
	"apt-get": true, "butane": false, "ceph": true, "cloud-init": true, "firewall-cmd": true, "getent": false, "go": true,
	"journalctl": false, "make": true, "mount": false, "qemu-img": true, "ssh": false, "ssh-keygen": false,
	"systemctl": true, "terraform": true, "usermod": false, "virsh": true, "virt-install": true, "virt-viewer": false,
	"virtfleet": true,
}

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	// assigned is a variable of the environment that a command begins with.
	assigned = regexp.MustCompile(`^[A-Za-z_]+=`)
)

// inSentences returns the commands in the sentences of a page: those that are complete, with arguments.
func inSentences(page string) []string {
	var text strings.Builder
	fence := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fence = !fence
		} else if !fence {
			text.WriteString(line)
		}
	}
	var commands []string
	for _, span := range quoted.FindAllStringSubmatch(text.String(), -1) {
		words := strings.Fields(strings.ReplaceAll(span[1], `\|`, "|"))
		all := strings.Join(words, " ")
		for len(words) > 0 && assigned.MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) < 2 || words[1] == "=" {
			continue
		}
		subcommands, known := programs[words[0]]
		if known && (len(words) > 2 || !subcommands || strings.HasPrefix(words[1], "--")) {
			commands = append(commands, all)
		}
	}
	return commands
}

func continues(line string) bool {
	return strings.HasSuffix(line, "|") || strings.HasSuffix(line, "\\")
}

// TestDocumentation_commandsAreShell: a block of commands is marked in one way, so that none is overlooked.
func TestDocumentation_commandsAreShell(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "templates/guides/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if mark := strings.TrimSpace(line); slices.Contains([]string{"```sh", "```bash", "```console"}, mark) {
				t.Errorf("%s: write ```shell instead of %s", page, mark)
			}
		}
	}
}

// TestDocumentation_reasonsAreNeeded: what isn't run is still documented.
func TestDocumentation_reasonsAreNeeded(t *testing.T) {
	t.Parallel()
	commands := documented(t)
	for command := range elsewhere {
		if commands[command] == "" {
			t.Errorf("no page has %q any more", command)
		}
	}
}

// everyCommand fails the test unless each documented command was run, or says why not.
func (u *user) everyCommand(t *testing.T) {
	t.Helper()
	commands := documented(t)
	for command, page := range commands {
		if u.ran[command] == (elsewhere[command] != "") {
			t.Errorf("%s: %q has to be run by TestAccFirstSteps, or to have a reason in elsewhere; not both", page, command)
		}
	}
	for command := range u.ran {
		if commands[command] == "" {
			t.Errorf("%q is run as documented, and no page has it", command)
		}
	}
}

// TestReadme_showsTheExample: what the README quotes is in the example.
func TestReadme_showsTheExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(root, "examples/first-vm/main.tf"))
	if err != nil {
		t.Fatal(err)
	}
	_, quoted, _ := strings.Cut(string(readme), "```hcl\n")
	quoted, _, found := strings.Cut(quoted, "```")
	if !found {
		t.Fatal("the README quotes no example")
	}
	for line := range strings.Lines(quoted) {
		if line = strings.TrimSpace(line); line != "# ..." && !strings.Contains(string(example), line) {
			t.Errorf("the example has no line %q", line)
		}
	}
}
