package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Changed returns the configuration with only those disks and interfaces whose source is new. A network that was
// removed under a running VM is no reason to refuse more memory.
func (d Desired) Changed(vm *inventory.VM) Desired {
	have := vm.DeclaredSpec()
	d.Have = *have
	d.floors = d.changedFloors(vm)

	d.Spec.Values = changedValues(d.Spec, have)
	if !d.Spec.Firmware.Differs(have.Firmware) {
		d.Spec.Firmware = domain.Firmware{}
	}

	d.Spec.Interfaces = maps.Clone(d.Spec.Interfaces)
	for key, want := range d.Spec.Interfaces {
		if is, ok := have.Interfaces[key]; ok && !asksHost(is, want) {
			delete(d.Spec.Interfaces, key)
		}
	}

	d.Volumes = maps.Clone(d.Volumes)
	for key, id := range d.Volumes {
		is, ok := have.Disks[key]
		source := domain.DiskSource{File: id}

		if storage.ParseRef(id) != nil {
			source = d.Spec.Disks[key].Source
		}

		if ok && domain.SameImage(is.Source, source) {
			delete(d.Volumes, key)
		}
	}

	made := d.RenamedOwnDisks(vm)
	d.OwnDisks = maps.Clone(d.OwnDisks)

	for key := range d.OwnDisks {
		is, there := made[key]
		moves := IsFirstBoot(key) && d.OwnDisk(key, is).Pool != is.Pool

		if _, handed := d.Handed[key]; there && !moves || handed {
			delete(d.OwnDisks, key)
		}
	}

	d.Files = d.newFiles(vm)

	return d
}

// fitsSurroundings checks that the networks, bridges, volumes and devices exist on the host. grown are the existing
// disks that become larger.
func (p *Scheduler) fitsSurroundings(
	ctx context.Context, a inventory.Reply, d Desired, grown map[string]grownDisk,
) []inventory.Problem {
	problems := slices.Concat(fitsNetworks(ctx, a, d), fitsFloors(ctx, a, d), p.fitsOwnDisks(ctx, a, d, grown))
	problems = append(problems, fitsDevices(ctx, a, d.Spec, p.defaultType)...)

	return slices.Concat(problems, fitsParts(a, d), fitsWeights(d.Spec), p.fitsVolumes(ctx, a, d), fitsFormats(ctx, a, d))
}

// fitsVolumes checks that the host has the volumes that disks name, and that the disks can use them.
func (p *Scheduler) fitsVolumes(ctx context.Context, a inventory.Reply, d Desired) []inventory.Problem {
	var problems []inventory.Problem

	for _, key := range slices.Sorted(maps.Keys(d.Volumes)) {
		path := d.Volumes[key]

		v, err := p.volume(ctx, a.Host, d, path)

		var unfinished *storage.Unfinished
		if err == nil {
			unfinished = p.unfinishedIn(ctx, a.Host, d, v)
		}

		p := inventory.Problem{Attribute: "disks." + key + ".volume"}

		switch {
		case inventory.IsNotFound(err):
			p.Detail = fmt.Sprintf("it has no volume %q in an active storage pool", path)
		case err != nil:
			p.Detail = fmt.Sprintf("reading volume %q: %v", path, err)
		default:
			p.Detail = d.unfitVolume(ctx, a, key, v)

			if unfinished != nil && p.Detail == "" {
				p.Detail, p.Remedy = unfinished.String(), unfinished.Remedy()
			}

			if directory, strays := d.PlannedObjects.Strays(a.Host.Name, v.Pool, v.Path); strays {
				p.Detail = fmt.Sprintf("its storage pool %q is planned in %s, and volume %q stays in %s", v.Pool, directory, path,
					filepath.Dir(v.Path))
			}
		}

		if p.Detail == "" {
			continue
		}

		problems = append(problems, p)
	}

	return problems
}

// unfitVolume returns why the disk of a key can't use an existing volume, or "" if it can. In a plan, the same apply
// may create the secret of an RBD image.
func (d Desired) unfitVolume(ctx context.Context, a inventory.Reply, key string, v *libvirt.Volume) string {
	source, why, err := SourceOf(ctx, a.Host, v)
	if err != nil {
		return fmt.Sprintf("reading storage pool %q: %v", v.Pool, err)
	}

	disk := d.Spec.Disks[key]
	disk.Format = cmp.Or(disk.Format, d.Have.FormatOf(source), d.FreshFormat(v))

	if why = cmp.Or(why, UnfitVolume(v, disk)); why != "" || d.Planned || source.Network == nil {
		return why
	}

	if source.Network.Auth == nil {
		return ""
	}

	return lacksSecret(ctx, a, false, source.Network.Auth.Secret, fmt.Sprintf("volume %q", v.Pool+"/"+v.Name))
}

// fitsFormats checks the formats that are taken from the files of disks.
func fitsFormats(ctx context.Context, a inventory.Reply, d Desired) (problems []inventory.Problem) {
	for _, key := range slices.Sorted(maps.Keys(d.Spec.Disks)) {
		attribute := "disks." + key + ".file"
		if file := d.Files[attribute]; file != "" && d.Spec.Disks[key].Format == "" {
			v, err := a.Host.Conn.VolumeByPath(ctx, file)
			if err != nil {
				continue // Then nothing is taken from it.
			}

			if why := DoubtfulFormat(v, domain.Disk{Format: d.FreshFormat(v)}); why != "" {
				problems = append(problems, inventory.Problem{Attribute: attribute, Detail: why})
			}
		}
	}

	return problems
}

// fitsNetworks checks the networks, bridges and filters that the interfaces name.
func fitsNetworks(ctx context.Context, a inventory.Reply, d Desired) []inventory.Problem {
	var problems []inventory.Problem

	keys := slices.Sorted(maps.Keys(d.Spec.Interfaces))
	gets := func(key string) bool { return d.Spec.Interfaces[key].Network != "" && d.Strategy() != status.Halted }
	read := sync.OnceValues(func() ([]libvirt.Network, error) {
		return a.Host.Networks(ctx, func(networks []libvirt.Network) bool {
			cached := func() ([]libvirt.Network, error) { return networks, nil } //nolint:unparam // as read

			// A network that is missing may be created meanwhile. That one refuses a VLAN stays so, unless this process
			// changes it: while VMs are placed, each host that refuses theirs would be asked again for each VM.
			return !slices.ContainsFunc(keys, func(key string) bool { return len(fitsNetwork(a, d, key, cached)) > 0 })
		})
	})

	for _, key := range keys {
		problems = append(problems, fitsNetwork(a, d, key, read)...)

		if gets(key) {
			problems = append(problems, lacksBridgeOfNetwork(ctx, a, d, key, read)...)
			problems = append(problems, refusesVLAN(a, d, key, read)...)
		}

		problems = append(problems, fitsInterface(ctx, a, d, key)...)
	}

	return problems
}

// fitsNetwork checks the network of an interface, and its port group.
func fitsNetwork(
	a inventory.Reply, d Desired, key string, read func() ([]libvirt.Network, error),
) (problems []inventory.Problem) {
	i := d.Spec.Interfaces[key]

	if i.Network != "" && !d.PlannedObjects.On(a.Host.Name, status.Network, i.Network) {
		networks, err := read()

		if why := networkMissing(networks, err, i.Network); why != "" {
			problems = append(problems, inventory.Problem{Attribute: "interfaces." + key + ".network", Detail: why})
		}

		if a.Info.LacksIOMMU && d.Strategy() != status.Halted && migration.GivesHostDevices(networks, i.Network) {
			problems = append(problems, inventory.Problem{
				Attribute: "interfaces." + key + ".network", Detail: fmt.Sprintf("its network %q can't give a PCI device "+
					"to a VM, %s", i.Network, migration.NoIOMMU), Remedy: migration.IOMMURemedy,
			})
		}
	}

	if group := i.Values["port_group"]; lacksPortGroup(a.Host.Name, d, i.Network, group, read) {
		problems = append(problems, inventory.Problem{
			Attribute: "interfaces." + key + ".port_group", Detail: fmt.Sprintf("its network %q has no port group %q, and "+
				"libvirt would connect the interface without one", i.Network, group),
			Remedy: "Correct port_group. If the network is to have it, give it to the network first.",
		})
	}

	return problems
}

// lacksPortGroup reports whether the host's network is known not to have the port group. Another check reports a
// network that is missing or can't be read.
func lacksPortGroup(host string, d Desired, network, group string, read func() ([]libvirt.Network, error)) bool {
	if network == "" || group == "" {
		return false
	}

	if declared, has := d.PlannedObjects.PortGroup(host, network, group); declared {
		return !has
	}

	networks, err := read()
	if err != nil {
		return false
	}

	at := slices.IndexFunc(networks, func(n libvirt.Network) bool { return n.Name == network })
	if at < 0 {
		return d.PlannedObjects.On(host, status.Network, network)
	}

	return !migration.HasPortGroup(networks[at], group)
}

func networkMissing(networks []libvirt.Network, err error, name string) string {
	if err != nil {
		return fmt.Sprintf("its networks can't be read: %v", err)
	}

	var names []string

	for _, n := range networks {
		if n.Name != name {
			names = append(names, n.Name)

			continue
		}

		if !n.Active {
			return fmt.Sprintf("its network %q is not started", name)
		}

		return ""
	}

	if len(names) == 0 {
		return fmt.Sprintf("it has no network %q, nor any other", name)
	}

	slices.Sort(names)

	return fmt.Sprintf("it has no network %q, only %s", name, inventory.QuoteList(names))
}
