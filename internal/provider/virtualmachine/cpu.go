package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var cpuAttributes = mergeAttributes(blockLevels["cpu"], attributes{
	"vcpus": optionalInt("Number of virtual CPUs. With a topology, it must be sockets × cores × threads. Default for " +
		"new VMs: that product."),
	"sockets": optionalInt("Number of sockets in use. More can be added while the VM runs, up to `max_sockets`. " +
		"Default for new VMs: `1`, or as many as `vcpus` requires."),
	"cores": optionalInt("Number of cores per socket. Unlike libvirt's `cores`, it isn't per die. Default for new " +
		"VMs: `1`."),
	"threads": optionalInt("Number of threads per core. Default for new VMs: `1`."),
	"max_sockets": optionalInt("Number of sockets up to which CPUs can be added while the VM runs. Default for new " +
		"VMs: the value of `sockets`."),
	"mode": optionalString("CPU mode. One of " + value.OneOf(domain.CPUModes) + ". Default for new VMs: `host-model` " +
		"for the type `kvm` (`host-passthrough` on ARM); QEMU decides for the type `qemu`."),
	"model": optionalString("CPU model, for the mode `custom`."),
})

var cpuType = objectType(cpuAttributes)

func cpuToDomain(o types.Object) domain.CPU {
	a := open(o)
	return domain.CPU{
		VCPUs:      value.Int(a.int("vcpus")),
		Sockets:    value.Int(a.int("sockets")),
		Cores:      value.Int(a.int("cores")),
		Threads:    value.Int(a.int("threads")),
		MaxSockets: value.Int(a.int("max_sockets")),
		Mode:       optionalText(a.string("mode")),
		Model:      optionalText(a.string("model")),
	}
}

func cpuFromDomain(s domain.Spec, prior *model) types.Object {
	c := s.CPU
	a := map[string]attr.Value{
		"vcpus":       value.NewInt(c.VCPUs),
		"sockets":     value.NewInt(c.Sockets),
		"cores":       value.NewInt(c.Cores),
		"threads":     value.NewInt(c.Threads),
		"max_sockets": value.NewInt(c.MaxSockets),
		"mode":        stringOrNull(c.Mode),
		"model":       stringOrNull(c.Model),
	}
	readRows(a, "cpu", rowReader{facts: s.Values}, open(prior.CPU), prior.Name.IsNull())
	return types.ObjectValueMust(cpuType.AttrTypes, a)
}

// planCPU plans the counts that follow from the declared ones: the number of virtual CPUs is sockets x cores x
// threads.
func planCPU(config, planned, prior types.Object) types.Object {
	if !isSet(config) || !isSet(planned) {
		return planned
	}
	c := counting{declared: open(config), planned: open(planned), prior: open(prior)}
	if mode := c.declared.string("mode"); isSet(mode) && mode.ValueString() != "custom" && c.declared["model"].IsNull() {
		c.planned["model"] = types.StringNull()
	}
	if model := c.declared.string("model"); c.declared["mode"].IsNull() {
		switch {
		case model.IsUnknown():
			c.planned["mode"] = types.StringUnknown()
		case model.ValueString() != "":
			c.planned["mode"] = types.StringValue("custom") // Only this mode has a model.
		}
	}
	if c.prior == nil {
		// These are the counts of a new VM that declares none.
		c.prior = object{}
		for _, name := range cpuCounts {
			c.prior[name] = types.Int64Value(1)
		}
		c.planCounts()
	} else if c.isChanged() {
		c.planCounts()
	}
	return types.ObjectValueMust(cpuType.AttrTypes, c.planned)
}

var cpuCounts = []string{"vcpus", "sockets", "cores", "threads", "max_sockets"}

// counting computes the number of virtual CPUs and the topology for a plan, by the same rules as the domain package
// when it changes a definition. An unknown count is 0.
type counting struct{ declared, planned, prior object }

// isChanged reports whether a declared count differs from the prior one.
func (c counting) isChanged() bool {
	for _, name := range cpuCounts {
		if v := c.declared[name]; !v.IsNull() && !v.Equal(c.prior[name]) {
			return true
		}
	}
	return false
}

func (c counting) isDeclared(name string) bool { return !c.declared[name].IsNull() }

// declaredOrPrior returns the declared count, or else the prior one.
func (c counting) declaredOrPrior(name string) int64 {
	if c.isDeclared(name) {
		return c.declared.int(name).ValueInt64()
	}
	return c.prior.int(name).ValueInt64()
}

func (c counting) planCounts() {
	perSocket := c.declaredOrPrior("cores") * c.declaredOrPrior("threads")
	before := c.prior.int("cores").ValueInt64() * c.prior.int("threads").ValueInt64()
	vcpus := c.vcpus(perSocket, before)

	sockets := int64(0)
	if perSocket > 0 && vcpus%perSocket == 0 {
		sockets = vcpus / perSocket
	}
	most := sockets
	priorMost := c.prior.int("max_sockets").ValueInt64()
	if headroom := priorMost*before > c.prior.int("vcpus").ValueInt64(); headroom && sockets > 0 {
		most = max(sockets, priorMost)
	}
	c.planCount("cores", c.declaredOrPrior("cores"))
	c.planCount("threads", c.declaredOrPrior("threads"))
	c.planCount("vcpus", vcpus)
	c.planCount("sockets", sockets)
	c.planCount("max_sockets", most)
}

// vcpus returns the number of virtual CPUs that follows from the declared and the prior counts.
func (c counting) vcpus(perSocket, before int64) int64 {
	was := c.prior.int("vcpus").ValueInt64()
	switch {
	case c.isDeclared("sockets"):
		return c.declaredOrPrior("sockets") * perSocket
	case c.isDeclared("vcpus"):
		return c.declaredOrPrior("vcpus")
	case perSocket == 0:
		return 0
	case perSocket == before, before == 1 && was%perSocket == 0:
		return was
	default:
		return c.declaredOrPrior("sockets") * perSocket
	}
}

// planCount plans a count that isn't declared.
func (c counting) planCount(name string, n int64) {
	if c.isDeclared(name) {
		return
	}
	c.planned[name] = types.Int64Unknown()
	if n > 0 {
		c.planned[name] = types.Int64Value(n)
	}
}
