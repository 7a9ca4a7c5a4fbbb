package domain

import (
	"slices"
	"strconv"

	"github.com/beevik/etree"
)

// cpuBlock is the VM's virtual CPUs.
var cpuBlock = block{
	rules:    cpuRules,
	read:     func(d *Definition, s *Spec) { s.CPU = d.readCPU() },
	apply:    func(d *Definition, want Spec) error { return d.applyCPU(want) },
	classify: classifyCPU,
	validate: func(s Spec, c *checker) { s.CPU.validate(c); validateNUMA(s, c); validateThreads(s, c) },
	align: func(live *Spec, persistent Spec) {
		if live.CPU.Expanded == nil {
			return
		}
		alignFeatures(live, persistent)
		if persistent.CPU.expandsTo(*live.CPU.Expanded, live.Arch) {
			live.CPU.Mode, live.CPU.Model = persistent.CPU.Mode, persistent.CPU.Model
		} else {
			live.CPU.Mode, live.CPU.Model = live.CPU.Expanded.likelyRequest()
		}
		live.CPU.Expanded = nil
	},
	observe: func(merged *Spec, _ Spec) { merged.CPU.Expanded = nil },
	step: func(p *stepper, c change) {
		if to, err := planTopology(p.have.CPU, p.want.CPU); err == nil {
			p.step(Step{Kind: SetVcpus, Path: c.Path, VCPUs: to.online})
		}
	},
}

var cpuRules = map[string]rule{
	"cpu.count more": {
		effect: live, step: SetVcpus, why: "Virtual CPUs are plugged into the running VM.",
	},
	"cpu.count above the maximum": {
		effect: restart,
		why:    "The running VM has no free sockets; cpu.max_sockets reserves them at VM start.",
	},
	"cpu.count fewer": {
		effect: restart, why: "Not every guest can give up virtual CPUs while it runs, so fewer require a restart.",
	},
	"cpu.count fixed":     {effect: restart, why: "This architecture can't add virtual CPUs."},
	"cpu.count regrouped": {effect: restart, why: "The topology of the virtual CPUs is fixed when the VM starts."},
	"cpu.cores":           {effect: restart, why: "The topology of the virtual CPUs is fixed when the VM starts."},
	"cpu.threads":         {effect: restart, why: "The topology of the virtual CPUs is fixed when the VM starts."},
	"cpu.max_sockets":     {effect: restart, why: "Sockets are reserved when the VM starts."},
	"cpu.mode":            {effect: restart, why: "A guest keeps the CPU that it started with."},
	"cpu.model":           {effect: restart, why: "A guest keeps the CPU that it started with."},
}

// readCPU reads <vcpu> and <cpu>.
func (d *Definition) readCPU() CPU {
	maxVCPUs, online := d.vcpus()
	cpu := child(d.root(), "cpu")
	cores, threads := 1, 1
	if topology := child(cpu, "topology"); topology != nil {
		cores, threads = coresPerSocket(topology), countOrOne(attr(topology, "threads"))
	}
	read := CPU{
		VCPUs:      new(online),
		Cores:      new(cores),
		Threads:    new(threads),
		MaxSockets: new(max(maxVCPUs/(cores*threads), 1)),
	}
	if online%(cores*threads) == 0 {
		read.Sockets = new(online / (cores * threads))
	}
	mode, model := attr(cpu, "mode"), text(child(cpu, "model"))
	if mode == "" && model != "" {
		mode = "custom"
	}
	if mode == "custom" && d.Live() && attr(cpu, "check") == "full" {
		// libvirt writes this for every mode that it has expanded, host-model and custom alike.
		read.Expanded = &ExpandedCPU{Model: model, Vendor: text(child(cpu, "vendor"))}
		return read
	}
	if mode != "" {
		read.Mode = new(mode)
	}
	if mode == "custom" && model != "" { // In other modes libvirt ignores a model.
		read.Model = new(model)
	}
	return read
}

// vcpus returns how many virtual CPUs the definition has, and how many of them are online.
func (d *Definition) vcpus() (maxVCPUs, online int) {
	e := child(d.root(), "vcpu")
	maxVCPUs = countOrOne(text(e))
	online = maxVCPUs
	if n, ok := number(attr(e, "current")); ok && n > 0 {
		online = min(n, maxVCPUs)
	}
	return maxVCPUs, online
}

// coresPerSocket returns the cores of a socket, multiplied by its dies and clusters, because users think of cores per
// socket.
func coresPerSocket(topology *etree.Element) int {
	dies, clusters := countOrOne(attr(topology, "dies")), countOrOne(attr(topology, "clusters"))
	return dies * clusters * countOrOne(attr(topology, "cores"))
}

// maxCount is more than any hypervisor supports, and small enough that the product of four counts doesn't overflow.
const maxCount = 1 << 14

// countOrOne reads a count. Anything else counts as 1, libvirt's default for all counts.
func countOrOne(s string) int {
	if n, ok := number(s); ok && n > 0 && n <= maxCount {
		return n
	}
	return 1
}

// layout is the number of virtual CPUs and their topology after applying what is declared.
type layout struct {
	online, max, cores, threads int
}

// planTopology combines have and want. If sockets aren't declared, they follow from the number of virtual CPUs, and
// vice versa. A VM without headroom stays without headroom. A VM with headroom keeps its maximum unless more is needed.
func planTopology(have, want CPU) (layout, error) {
	cores, threads := pick(want.Cores, have.Cores, 1), pick(want.Threads, have.Threads, 1)
	perSocket := cores * threads
	haveVCPUs := pick(have.VCPUs, nil, 1)
	havePerSocket := pick(have.Cores, nil, 1) * pick(have.Threads, nil, 1)
	haveMax := max(pick(have.MaxSockets, nil, 1)*havePerSocket, haveVCPUs)

	online := haveVCPUs
	switch {
	case perSocket < 1:
		return layout{}, Problem{"cpu", "Numbers of cores and threads must be at least 1."}
	case want.Sockets != nil:
		online = *want.Sockets * perSocket
		if want.VCPUs != nil && *want.VCPUs != online {
			return layout{}, Problem{"cpu.sockets", "The number of virtual CPUs isn't sockets x cores x threads."}
		}
	case want.VCPUs != nil:
		online = *want.VCPUs
	case perSocket == havePerSocket:
	case havePerSocket == 1 && haveVCPUs%perSocket == 0:
		// The VM has no topology of its own: its virtual CPUs are regrouped.
	case have.Sockets != nil:
		online = *have.Sockets * perSocket
	default:
		return layout{}, Problem{"cpu.sockets", "The virtual CPUs that are online don't fill sockets: declare cpu.sockets."}
	}

	out := layout{online: online, cores: cores, threads: threads, max: online}
	switch {
	case want.MaxSockets != nil:
		out.max = *want.MaxSockets * perSocket
		if out.max < online {
			return layout{}, Problem{"cpu.max_sockets", "The maximum is less than the sockets of the VM."}
		}
	case perSocket == havePerSocket && online == haveVCPUs:
		out.max = haveMax
	case haveMax > haveVCPUs:
		out.max = max(online, haveMax/havePerSocket*perSocket)
	}
	if out.max%perSocket != 0 {
		return layout{}, Problem{"cpu", "The virtual CPUs (" + strconv.Itoa(out.max) + ") don't fill sockets of " +
			strconv.Itoa(perSocket) + ": declare cpu.cores and cpu.threads so that they do, or cpu.max_sockets."}
	}
	if online < 1 {
		return layout{}, Problem{"cpu", "A VM needs at least one virtual CPU."}
	}
	return out, nil
}

// MaxVCPUs returns the largest number of virtual CPUs that a new VM with these values could have, and 0 if the values
// contradict each other.
func (c CPU) MaxVCPUs() int {
	to, err := planTopology(CPU{}, newCPU(c))
	if err != nil {
		return 0
	}
	return to.max
}

// CountAttribute returns the attribute that declares most of the number of virtual CPUs.
func (c CPU) CountAttribute() string {
	switch {
	case c.MaxSockets != nil:
		return "cpu.max_sockets"
	case c.VCPUs != nil || c.Sockets == nil && c.Cores == nil:
		return "cpu.vcpus"
	case c.Cores != nil:
		return "cpu.cores"
	default:
		return "cpu.sockets"
	}
}

// pick returns the first value that is declared.
func pick[V any](first, second *V, otherwise V) V {
	if first != nil {
		return *first
	}
	if second != nil {
		return *second
	}
	return otherwise
}

// applyCPU patches <vcpu> and <cpu>, and everything else that depends on the number of virtual CPUs.
func (d *Definition) applyCPU(declared Spec) error {
	want := declared.CPU
	if err := d.applyCPUModel(want); err != nil {
		return err
	}
	have := d.readCPU()
	if !countsDiffer(have, want) {
		return nil
	}
	to, err := planTopology(have, want)
	if err != nil {
		return err
	}
	maxVCPUs, online := d.vcpus()
	if to.max != maxVCPUs || to.online != online {
		e := ensure(d.root(), "vcpu", "currentMemory", "memory")
		e.SetText(strconv.Itoa(to.max))
		setAttr(e, "current", "")
		if to.online != to.max {
			setAttr(e, "current", strconv.Itoa(to.online))
		}
		// The list of individual virtual CPUs would contradict the new number. libvirt creates a new list.
		dropChildren(d.root(), "vcpus")
	}
	d.applyTopology(to)
	if to.max < maxVCPUs {
		d.forgetVCPUs(to.max)
	}
	if _, cells := declared.Values[cpuNUMA]; cells {
		return nil // Declared cells already list the virtual CPUs.
	}
	return d.applyCells(to.max)
}

// countsDiffer reports whether a declared count differs from the current one.
func countsDiffer(have, want CPU) bool {
	return differs(have.VCPUs, want.VCPUs) || differs(have.Sockets, want.Sockets) || differs(have.Cores, want.Cores) ||
		differs(have.Threads, want.Threads) || differs(have.MaxSockets, want.MaxSockets)
}

// differs reports whether want is declared and differs from have.
func differs[V comparable](have, want *V) bool {
	return want != nil && (have == nil || *have != *want)
}

func (d *Definition) applyTopology(to layout) {
	cpu := child(d.root(), "cpu")
	topology := child(cpu, "topology")
	if topology == nil {
		if to.cores == 1 && to.threads == 1 {
			return // As libvirt does without a topology: a socket per virtual CPU.
		}
		topology = ensure(ensure(d.root(), "cpu", "features", "os"), "topology", "vendor", "model")
	}
	if coresPerSocket(topology) != to.cores {
		groups := countOrOne(attr(topology, "dies")) * countOrOne(attr(topology, "clusters"))
		if to.cores%groups != 0 {
			groups = 1
			for _, level := range []string{"dies", "clusters"} {
				if attr(topology, level) != "" {
					setAttr(topology, level, "1")
				}
			}
		}
		setAttr(topology, "cores", strconv.Itoa(to.cores/groups))
	}
	setAttr(topology, "sockets", strconv.Itoa(to.max/(to.cores*to.threads)))
	setAttr(topology, "threads", strconv.Itoa(to.threads))
	if attr(topology, "cores") == "" {
		setAttr(topology, "cores", "1")
	}
}

// applyCPUModel sets mode and model. Features stay, because users want them in every mode.
func (d *Definition) applyCPUModel(want CPU) error {
	have := d.readCPU()
	mode := want.Mode
	if mode == nil && want.Model != nil {
		mode = new("custom")
	}
	if !differs(have.Mode, mode) && !differs(have.Model, want.Model) {
		return nil
	}
	cpu := ensure(d.root(), "cpu", "features", "os")
	if differs(have.Mode, mode) {
		dropChildren(cpu, "model", "vendor")
		for _, key := range []string{"match", "check", "migratable"} {
			setAttr(cpu, key, "")
		}
		setAttr(cpu, "mode", *mode)
	}
	switch {
	case *mode == "custom" && want.Model == nil && child(cpu, "model") == nil:
		return Problem{"cpu.model", `The mode "custom" needs a model.`}
	case *mode != "custom" && want.Model != nil:
		return Problem{"cpu.model", `A model can be declared with the mode "custom" only.`}
	case want.Model != nil:
		model := child(cpu, "model")
		if model == nil {
			model = etree.NewElement("model")
			cpu.InsertChildAt(0, model)
		}
		model.SetText(*want.Model)
		dropChildren(cpu, "vendor")
	}
	return nil
}

// expandsTo reports whether libvirt may have expanded the declared CPU to expanded. Only the expansion of host-model
// includes the host's vendor, on architectures that have vendors.
func (c CPU) expandsTo(expanded ExpandedCPU, arch string) bool {
	switch pick(c.Mode, nil, "") {
	case "host-model":
		return expanded.Vendor != "" || arch != "x86_64" && arch != "i686"
	case "custom":
		return c.Model == nil || *c.Model == expanded.Model
	case "":
		return c.Model == nil || *c.Model == expanded.Model
	default:
		return false // libvirt doesn't expand other modes.
	}
}

// likelyRequest returns the mode and model that were most likely requested.
func (e ExpandedCPU) likelyRequest() (mode, model *string) {
	if e.Vendor != "" {
		return new("host-model"), nil
	}
	return new("custom"), new(e.Model)
}

// classifyCPU classifies counts, mode and model.
func classifyCPU(c *classifier) {
	have, want := c.have.CPU, c.want.CPU
	for _, count := range []struct {
		path       string
		have, want *int
	}{{"cpu.vcpus", have.VCPUs, want.VCPUs}, {"cpu.sockets", have.Sockets, want.Sockets}} {
		if differs(count.have, count.want) {
			c.add(count.path, c.countRow(), "")
		}
	}
	if differs(have.Cores, want.Cores) {
		c.add("cpu.cores", "cpu.cores", "")
	}
	if differs(have.Threads, want.Threads) {
		c.add("cpu.threads", "cpu.threads", "")
	}
	if differs(have.MaxSockets, want.MaxSockets) {
		c.add("cpu.max_sockets", "cpu.max_sockets", "")
	}
	if have.Expanded != nil {
		if want.expandsTo(*have.Expanded, c.have.Arch) {
			return
		}
		have.Mode, have.Model = have.Expanded.likelyRequest()
		if want.Mode != nil && *have.Mode == *want.Mode && !differs(have.Model, want.Model) {
			have.Mode = nil // The guess doesn't explain why the CPU differs.
		}
	}
	if differs(have.Mode, want.Mode) {
		c.add("cpu.mode", "cpu.mode", "")
	}
	if differs(have.Model, want.Model) {
		c.add("cpu.model", "cpu.model", "")
	}
}

// countRow returns the rule's row for a change of the number of virtual CPUs.
func (c *classifier) countRow() string {
	have, want := c.have.CPU, c.want.CPU
	to, err := planTopology(have, want)
	online := pick(have.VCPUs, nil, 1)
	regrouped := differs(have.Cores, want.Cores) || differs(have.Threads, want.Threads)
	switch {
	case err != nil, regrouped, to.online == online:
		return "cpu.count regrouped"
	case to.online < online:
		return "cpu.count fewer"
	case to.online > pick(have.MaxSockets, nil, 1)*pick(have.Cores, nil, 1)*pick(have.Threads, nil, 1):
		return "cpu.count above the maximum"
	case slices.Contains([]string{"aarch64", "armv7l", "riscv64", "riscv32"}, c.have.Arch):
		return "cpu.count fixed"
	default:
		return "cpu.count more"
	}
}
