package soak

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Where libvirt keeps definitions, and what it knows of what runs.
const (
	definitions = "/etc/libvirt/qemu"
	statuses    = "/run/libvirt/qemu"
)

// sight is what the hosts have of one VM.
type sight struct {
	// live and defined are its definitions by host, states what libvirt says of a running one, reasons why.
	live, defined   map[string]*etree.Element
	states, reasons map[string]string
	// processes are the hosts that run a QEMU with its UUID. Those of received waited for a guest when they were started.
	processes, received []string
}

func (s *sight) active() string {
	if len(s.processes) > 0 {
		return s.processes[0]
	}
	return ""
}

// handedOver says that libvirt has paused it for a handover and doesn't know whether the target continued it.
func (s *sight) handedOver() bool {
	h := s.active()
	return s.states[h] == "paused" && s.reasons[h] == "migration"
}

func (s *sight) definedOn() []string { return slices.Sorted(maps.Keys(s.defined)) }

// look reads of all VMs what the hosts' files and processes say.
func (w *world) look() map[string]*sight {
	sights := map[string]*sight{}
	of := func(uuid string) *sight {
		if sights[uuid] == nil {
			sights[uuid] = &sight{
				live: map[string]*etree.Element{}, defined: map[string]*etree.Element{},
				states: map[string]string{}, reasons: map[string]string{},
			}
		}
		return sights[uuid]
	}
	for _, h := range w.hosts {
		for _, root := range w.parsed(h.Path(definitions)) {
			of(root.FindElement("uuid").Text()).defined[h.Name] = root
		}
		for _, root := range w.parsed(h.Path(statuses)) {
			domain := root.SelectElement("domain")
			if domain == nil {
				continue
			}
			s := of(domain.FindElement("uuid").Text())
			s.live[h.Name], s.states[h.Name] = domain, root.SelectAttrValue("state", "")
			s.reasons[h.Name] = root.SelectAttrValue("reason", "")
		}
		for _, p := range w.processes(h) {
			if uuid := p.uuid(); uuid != "" {
				s := of(uuid)
				s.processes = append(s.processes, h.Name)
				if strings.Contains(p.args, " -incoming ") {
					s.received = append(s.received, h.Name)
				}
			}
		}
	}
	return sights
}

// forgotten reports whether all that is left of a VM are files that libvirt doesn't know, and removes them. After
// "virsh undefine", libvirt writes the definition's file again when it takes a snapshot or ends a block job, and leaves
// the file when the VM goes. Nothing sees it there until libvirt is started again.
func (w *world) forgotten(v *vm, s *sight) bool {
	if len(s.processes) > 0 {
		return false
	}
	for name, definition := range s.defined {
		h := w.lab.Host(name)
		out, err := h.Virsh(w.t.Context(), "list", "--all", "--uuid")
		if err != nil || strings.Contains(out, v.uuid) {
			return false
		}
		file := definition.FindElement("name").Text() + ".xml"
		w.say("  # %s: libvirt doesn't know %s/%s", name, definitions, file)
		if err := os.Remove(filepath.Join(h.Path(definitions), file)); err != nil {
			w.t.Fatal(err)
		}
	}
	return true
}

// parsed are the XML files of a directory. One that is just written, or removed, is read again.
func (w *world) parsed(dir string) []*etree.Element {
	files, err := filepath.Glob(filepath.Join(dir, "*.xml"))
	if err != nil {
		w.t.Fatal(err)
	}
	var roots []*etree.Element
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		d := etree.NewDocument()
		if err := errors.Join(err, d.ReadFromBytes(data)); err != nil || d.Root() == nil {
			w.t.Fatalf("%s: %v", file, err)
		}
		roots = append(roots, d.Root())
	}
	return roots
}

// process is one of a host.
type process struct{ pid, stat, name, args string }

func (p process) uuid() string {
	if !strings.HasPrefix(p.name, "qemu-system") || strings.HasPrefix(p.stat, "Z") {
		return ""
	}
	_, rest, _ := strings.Cut(p.args, " -uuid ")
	uuid, _, _ := strings.Cut(rest, " ")
	return uuid
}

func (w *world) processes(h *lab.Host) []process {
	out, err := w.ask(h, "ps", "-e", "-ww", "-o", "pid=,stat=,comm=,args=")
	if err != nil {
		w.t.Fatal(err)
	}
	var all []process
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 {
			all = append(all, process{f[0], f[1], f[2], strings.Join(f[3:], " ")})
		}
	}
	return all
}

// source is where a disk is, and in which format.
type source struct {
	target, file, export, format string
	writable                     bool
}

func sources(domain *etree.Element) []source {
	var all []source
	for _, d := range domain.FindElements("devices/disk") {
		s := source{writable: d.SelectElement("readonly") == nil && d.SelectElement("shareable") == nil}
		if e := d.SelectElement("driver"); e != nil {
			s.format = e.SelectAttrValue("type", "raw")
		}
		if e := d.SelectElement("target"); e != nil {
			s.target = e.SelectAttrValue("dev", "")
		}
		if e := d.SelectElement("source"); e != nil {
			s.file, s.export = e.SelectAttrValue("file", ""), e.SelectAttrValue("name", "")
		}
		all = append(all, s)
	}
	return all
}

// root is the disk that a guest writes its numbers to: its export, else the first one.
func root(v *vm, domain *etree.Element) (source, bool) {
	var first source
	for _, s := range sources(domain) {
		if s.export != "" && s.export == v.export {
			return s, true
		}
		if s.target == "vda" {
			first = s
		}
	}
	return first, first.target != ""
}

const (
	sector = 512
	// kept is how many of the last numbers are compared; a guest keeps a thousand.
	kept = 60
	head = 1200 * sector
)

// beat is the last number that a guest wrote to its disk, and the boot that wrote it.
type beat struct {
	number int
	boot   string
}

// read reads what a guest wrote, from outside, and checks that all of its last numbers are there.
func (w *world) read(v *vm, host string, domain *etree.Element) (beat, error) {
	s, ok := root(v, domain)
	if !ok {
		return beat{}, errors.New("it has no disk vda")
	}
	content, err := w.content(w.lab.Host(host), s)
	if err != nil {
		return beat{}, err
	}
	said := strings.Fields(strings.TrimRight(string(content[2*sector:3*sector]), "\x00"))
	if len(said) != 2 {
		return beat{}, nil
	}
	b := beat{boot: said[1]}
	if b.number, err = strconv.Atoi(said[0]); err != nil {
		return beat{}, err
	}
	for n := max(1, b.number-kept); n <= b.number; n++ {
		at := (100 + n%1000) * sector
		got := strings.Fields(strings.TrimRight(string(content[at:at+sector]), "\x00"))
		if len(got) != 1 || got[0] != strconv.Itoa(n) {
			return b, fmt.Errorf("%w: it wrote %d to sector %d of %v on %s, which has %q", errHole, n, at/sector, s,
				host, got)
		}
	}
	return b, nil
}

var errHole = errors.New("what the guest wrote is not there")

// content is the beginning of a disk.
func (w *world) content(h *lab.Host, s source) ([]byte, error) {
	var path string
	switch {
	case s.export != "":
		path = w.lab.ExportFile(s.export)
	case s.format == "raw" && s.file != "":
		path = h.Path(s.file)
	case s.file != "":
		out, err := w.ask(h, "bash", "-c", `f=$(mktemp) && trap 'rm -f $f' EXIT &&
qemu-img dd -U -f "$2" -O raw bs=512 count=1200 "if=$1" "of=$f" && base64 -w0 "$f"`, "read", s.file, s.format)
		if err != nil {
			return nil, err
		}
		return decoded(out)
	default:
		return nil, errors.New("its disk has no source")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content := make([]byte, head)
	_, err = file.ReadAt(content, 0)
	return content, err
}
