package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// Affect says which definition of a domain a change applies to. The values can be combined.
type Affect uint

// The definitions that a change can apply to.
const (
	// AffectConfig changes the persistent definition, which applies from the next start.
	AffectConfig Affect = 1 << iota
	// AffectLive changes the running domain.
	AffectLive
)

// impactFlags returns libvirt's flags. They have the same values in all its calls.
func (a Affect) impactFlags() golibvirt.DomainModificationImpact {
	var impact golibvirt.DomainModificationImpact
	if a&AffectConfig != 0 {
		impact |= golibvirt.DOMAIN_AFFECT_CONFIG
	}
	if a&AffectLive != 0 {
		impact |= golibvirt.DOMAIN_AFFECT_LIVE
	}
	return impact
}

// Shutdown says how a guest is asked to shut down.
type Shutdown int

// The ways to ask a guest to shut down.
const (
	// ShutdownAgent asks the guest agent.
	ShutdownAgent Shutdown = iota
	// ShutdownACPI presses the virtual power button.
	ShutdownACPI
)

// DefineDomain defines a domain, or redefines the domain with the same UUID and name, and returns its UUID. libvirt
// validates the document against its schema (VIR_DOMAIN_DEFINE_VALIDATE). It returns ErrExists if another domain has
// the name.
func (h *Host) DefineDomain(ctx context.Context, xml string) (uuid string, err error) {
	s := defineCall("defining domain")
	if err := h.refusePlaceholders(s, xml, ""); err != nil {
		return "", err
	}
	return call(ctx, h, s, func(c *conn) (string, error) {
		return c.define(xml, golibvirt.DOMAIN_DEFINE_VALIDATE)
	})
}

// RedefineDomain redefines a domain whose CompleteXML is present. What libvirt accepts and writes doesn't
// always fit its schema, for example the empty file of an interface's ROM. If the schema refuses the present definition
// too, the new definition is defined without validation.
func (h *Host) RedefineDomain(ctx context.Context, xml, present string) (uuid string, err error) {
	s := defineCall("defining domain")
	if err := h.refusePlaceholders(s, xml, present); err != nil {
		return "", err
	}
	return call(ctx, h, s, func(c *conn) (string, error) {
		uuid, err := c.define(xml, golibvirt.DOMAIN_DEFINE_VALIDATE)
		if !errors.Is(err, golibvirt.ERR_XML_INVALID_SCHEMA) {
			return uuid, err
		}
		if _, refused := c.define(present, golibvirt.DOMAIN_DEFINE_VALIDATE); errors.Is(
			refused, golibvirt.ERR_XML_INVALID_SCHEMA) {
			return c.define(xml, 0)
		}
		return "", err
	})
}

// refusePlaceholders returns an error if a document has one of Config.Placeholders as a value more often than the
// present one.
func (h *Host) refusePlaceholders(s callSpec, document, present string) error {
	count := func(in, p string) int { return strings.Count(in, `"`+p+`"`) + strings.Count(in, "'"+p+"'") }
	for _, p := range h.cfg.Placeholders {
		if count(document, p) > count(present, p) {
			return &Error{Host: h.cfg.Name, Operation: s.operation, Kind: ErrInvalid, Err: fmt.Errorf(
				"it would get %s, which only stands for a path that isn't known; nothing was changed", p)}
		}
	}
	return nil
}

func (c *conn) define(xml string, flags golibvirt.DomainDefineFlags) (uuid string, err error) {
	c.countCall("virDomainDefineXMLFlags")
	d, err := c.c.DomainDefineXMLFlags(xml, flags)
	if err != nil {
		return "", c.nameTaken(xml, err)
	}
	uuid, err = d.GetUUIDString()
	if err != nil {
		return "", errors.Join(err, d.Free())
	}
	c.keepHandle(uuid, d)
	return uuid, nil
}

// nameTaken finds out whether a definition was refused because another domain has its name, for which libvirt has no
// error number of its own.
func (c *conn) nameTaken(document string, refusal error) error {
	name, err := domainName(document)
	if !errors.Is(refusal, golibvirt.ERR_OPERATION_FAILED) || err != nil {
		return refusal
	}
	c.countCall("virDomainLookupByName")
	other, err := c.c.LookupDomainByName(name)
	if err != nil {
		return refusal
	}
	_ = other.Free()
	var lv golibvirt.Error
	errors.As(refusal, &lv)
	return fmt.Errorf("%w: %s", ErrExists, lv.Message)
}

// Kept is a part of a domain that isn't removed with its definition.
type Kept int

const (
	// KeepNVRAM keeps the firmware's variables. It requires libvirt 2.3.
	KeepNVRAM Kept = iota
	// KeepTPM keeps the state of the TPM. Before libvirt 8.9 the state is removed all the same.
	KeepTPM
	// KeepManagedSave protects the managed save image. libvirt can't keep it without the definition, and refuses to remove
	// the definition of a domain that has one.
	KeepManagedSave
	// KeepSnapshots protects the metadata of snapshots in the same way.
	KeepSnapshots
	// KeepCheckpoints protects the metadata of checkpoints in the same way. libvirt 9.0 removes the definition in spite of
	// them, so list them before.
	KeepCheckpoints
)

// UndefineDomain removes a domain's definition with its NVRAM, managed save image, TPM state and the metadata of its
// snapshots and checkpoints, as far as the host's libvirt knows them. A running domain continues to run as a transient
// domain.
func (h *Host) UndefineDomain(ctx context.Context, uuid string, keep ...Kept) error {
	return h.runOnDomain(ctx, defineCall("undefining domain "+uuid), uuid, "virDomainUndefineFlags",
		func(d *golibvirt.Domain) (err error) {
			for _, flags := range undefineFlags(keep) {
				// A driver refuses flags that it doesn't know before it does anything.
				if err = d.UndefineFlags(flags); !errors.Is(err, golibvirt.ERR_INVALID_ARG) {
					return err
				}
			}
			return err
		})
}

// undefineFlags returns sets of flags to try, from all flags that a current libvirt knows to those that each libvirt
// knows. libvirt has a flag for TPM state since 8.9, and removed the state without a flag before; the flag for
// checkpoints exists since 5.6.
func undefineFlags(keep []Kept) []golibvirt.DomainUndefineFlagsValues {
	variables, tpm := golibvirt.DOMAIN_UNDEFINE_NVRAM, golibvirt.DOMAIN_UNDEFINE_TPM
	if slices.Contains(keep, KeepNVRAM) {
		variables = golibvirt.DOMAIN_UNDEFINE_KEEP_NVRAM
	}
	if slices.Contains(keep, KeepTPM) {
		tpm = golibvirt.DOMAIN_UNDEFINE_KEEP_TPM
	}
	base, checkpoints := variables, golibvirt.DomainUndefineFlagsValues(0)
	if !slices.Contains(keep, KeepManagedSave) {
		base |= golibvirt.DOMAIN_UNDEFINE_MANAGED_SAVE
	}
	if !slices.Contains(keep, KeepSnapshots) {
		base |= golibvirt.DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
	}
	if !slices.Contains(keep, KeepCheckpoints) {
		checkpoints = golibvirt.DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
	}
	known := []golibvirt.DomainUndefineFlagsValues{base | checkpoints | tpm, base | checkpoints, base}
	if len(keep) > 0 {
		return known
	}
	return append(known, golibvirt.DOMAIN_UNDEFINE_MANAGED_SAVE, 0)
}

// StartDomain starts a domain, or resumes it from its managed save image.
func (h *Host) StartDomain(ctx context.Context, uuid string) error {
	return h.runOnDomain(ctx, changeCall("starting domain "+uuid), uuid, "virDomainCreate", (*golibvirt.Domain).Create)
}

// StartDomainFresh starts a domain with new firmware variables, created from the firmware's template. It requires
// libvirt 8.1. For firmware without variables it does the same as StartDomain.
func (h *Host) StartDomainFresh(ctx context.Context, uuid string) error {
	return h.runOnDomain(ctx, changeCall("starting domain "+uuid), uuid, "virDomainCreateWithFlags",
		func(d *golibvirt.Domain) error { return d.CreateWithFlags(golibvirt.DOMAIN_START_RESET_NVRAM) })
}

// SaveDomain writes the memory of a running domain to the host's disk and stops the domain; the next start resumes it
// from there (virDomainManagedSave).
func (h *Host) SaveDomain(ctx context.Context, uuid string) error {
	return h.runOnDomain(ctx, changeCall("saving domain "+uuid), uuid, "virDomainManagedSave",
		func(d *golibvirt.Domain) error { return d.ManagedSave(0) })
}

// ResumeDomain resumes a paused domain.
func (h *Host) ResumeDomain(ctx context.Context, uuid string) error {
	return h.runOnDomain(ctx, changeCall("resuming domain "+uuid), uuid, "virDomainResume", (*golibvirt.Domain).Resume)
}

// SuspendDomain pauses a running domain.
func (h *Host) SuspendDomain(ctx context.Context, uuid string) error {
	return h.runOnDomain(ctx, changeCall("pausing domain "+uuid), uuid, "virDomainSuspend", (*golibvirt.Domain).Suspend)
}

// WakeupDomain wakes a guest that suspended itself (PMSuspended).
func (h *Host) WakeupDomain(ctx context.Context, uuid string) error {
	return h.runOnDomain(ctx, changeCall("waking domain "+uuid), uuid, "virDomainPMWakeup",
		func(d *golibvirt.Domain) error { return d.PMWakeup(0) })
}

// DestroyDomain ends a domain's hypervisor process. With graceful the process is only asked to end, not killed, and
// ErrBusy is returned if it still runs after some seconds. It neither asks the guest nor removes the definition.
func (h *Host) DestroyDomain(ctx context.Context, uuid string, graceful bool) error {
	flags := golibvirt.DOMAIN_DESTROY_DEFAULT
	if graceful {
		flags = golibvirt.DOMAIN_DESTROY_GRACEFUL
	}
	return h.runOnDomain(ctx, changeCall("destroying domain "+uuid), uuid, "virDomainDestroyFlags",
		func(d *golibvirt.Domain) error { return d.DestroyFlags(flags) })
}

// ShutdownDomain asks the guest to shut down and doesn't wait until it has. It succeeds if the guest shuts down before
// its agent has answered.
func (h *Host) ShutdownDomain(ctx context.Context, uuid string, how Shutdown) error {
	s, flags := agentCall("asking the guest agent to shut down domain "+uuid), golibvirt.DOMAIN_SHUTDOWN_GUEST_AGENT
	s.writes = true
	if how == ShutdownACPI {
		s, flags = changeCall("pressing the power button of domain "+uuid), golibvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN
	}
	_, err := onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (struct{}, error) {
		c.countCall("virDomainShutdownFlags")
		err := d.ShutdownFlags(flags)
		// libvirt has no error number of its own for an agent whose channel was closed because QEMU ended.
		lost := errors.Is(err, golibvirt.ERR_INTERNAL_ERROR) || errors.Is(err, golibvirt.ERR_AGENT_UNRESPONSIVE)
		if how == ShutdownAgent && lost && c.isGoing(d) {
			return struct{}{}, nil
		}
		return struct{}{}, err
	})
	return err
}

// isGoing reports whether a domain is off or is shutting down.
func (c *conn) isGoing(d *golibvirt.Domain) bool {
	c.countCall("virDomainGetState")
	state, _, err := d.GetState()
	return err == nil && (state == golibvirt.DOMAIN_SHUTDOWN || state == golibvirt.DOMAIN_SHUTOFF) ||
		errors.Is(err, golibvirt.ERR_NO_DOMAIN)
}

// RenameDomain renames an inactive domain.
func (h *Host) RenameDomain(ctx context.Context, uuid, name string) error {
	_, err := onDomain(ctx, h, defineCall("renaming domain "+uuid), uuid,
		func(c *conn, d *golibvirt.Domain) (struct{}, error) {
			c.countCall("virDomainRename")
			defer c.forgetHandle(uuid)
			return struct{}{}, d.Rename(name, 0)
		})
	return err
}

// SetAutostart sets whether the host starts the domain when it boots.
func (h *Host) SetAutostart(ctx context.Context, uuid string, on bool) error {
	return h.runOnDomain(ctx, defineCall("setting autostart of domain "+uuid), uuid, "virDomainSetAutostart",
		func(d *golibvirt.Domain) error { return d.SetAutostart(on) })
}

// SetMetadata puts an element into the domain's <metadata>, in place of any element of the same namespace: key is the
// prefix, uri the namespace. An empty document removes the element. During a migration it blocks and then fails with
// ErrBusy.
func (h *Host) SetMetadata(ctx context.Context, uuid, key, uri, xml string, affect Affect) error {
	return h.runOnDomain(ctx, changeCall("writing metadata of domain "+uuid), uuid, "virDomainSetMetadata",
		func(d *golibvirt.Domain) error {
			return d.SetMetadata(golibvirt.DOMAIN_METADATA_ELEMENT, xml, key, uri, affect.impactFlags())
		})
}

// SetTitle sets the domain's title, one line; "" removes it.
func (h *Host) SetTitle(ctx context.Context, uuid, title string, affect Affect) error {
	return h.setText(ctx, uuid, golibvirt.DOMAIN_METADATA_TITLE, "title", title, affect)
}

// SetDescription sets the domain's description; "" removes it.
func (h *Host) SetDescription(ctx context.Context, uuid, description string, affect Affect) error {
	return h.setText(ctx, uuid, golibvirt.DOMAIN_METADATA_DESCRIPTION, "description", description, affect)
}

func (h *Host) setText(
	ctx context.Context, uuid string, kind golibvirt.DomainMetadataType, what, text string, affect Affect,
) error {
	return h.runOnDomain(ctx, changeCall("setting the "+what+" of domain "+uuid), uuid, "virDomainSetMetadata",
		func(d *golibvirt.Domain) error { return d.SetMetadata(kind, text, "", "", affect.impactFlags()) })
}

// guestEvents are events of a guest, and guestActions the actions on them, by their names in a definition.
var (
	guestEvents = map[string]golibvirt.DomainLifecycle{
		"on_poweroff": golibvirt.DOMAIN_LIFECYCLE_POWEROFF, "on_reboot": golibvirt.DOMAIN_LIFECYCLE_REBOOT,
		"on_crash": golibvirt.DOMAIN_LIFECYCLE_CRASH,
	}
	guestActions = map[string]golibvirt.DomainLifecycleAction{
		"destroy":          golibvirt.DOMAIN_LIFECYCLE_ACTION_DESTROY,
		"restart":          golibvirt.DOMAIN_LIFECYCLE_ACTION_RESTART,
		"rename-restart":   golibvirt.DOMAIN_LIFECYCLE_ACTION_RESTART_RENAME,
		"preserve":         golibvirt.DOMAIN_LIFECYCLE_ACTION_PRESERVE,
		"coredump-destroy": golibvirt.DOMAIN_LIFECYCLE_ACTION_COREDUMP_DESTROY,
		"coredump-restart": golibvirt.DOMAIN_LIFECYCLE_ACTION_COREDUMP_RESTART,
	}
)

// SetLifecycleAction sets the action on an event ("on_crash"), both named as in a definition.
func (h *Host) SetLifecycleAction(ctx context.Context, uuid, event, action string, affect Affect) error {
	lifecycle, known := guestEvents[event]
	do, doable := guestActions[action]
	if !known || !doable {
		return fmt.Errorf("%w: %s = %q", ErrUnsupported, event, action)
	}
	return h.runOnDomain(ctx, changeCall("setting "+event+" of domain "+uuid), uuid, "virDomainSetLifecycleAction",
		func(d *golibvirt.Domain) error {
			return d.SetLifecycleAction(lifecycle, do, uint32(affect.impactFlags()))
		})
}

// SetVcpus sets the number of vCPUs, up to the domain's maximum.
func (h *Host) SetVcpus(ctx context.Context, uuid string, n int, affect Affect) error {
	return h.runOnDomain(ctx, changeCall("setting the vCPUs of domain "+uuid), uuid, "virDomainSetVcpusFlags",
		func(d *golibvirt.Domain) error {
			return d.SetVcpusFlags(uint(max(n, 0)), golibvirt.DomainVcpuFlags(affect.impactFlags()))
		})
}

// SetMemory sets the guest's current memory in bytes, up to the domain's maximum. libvirt counts in KiB.
func (h *Host) SetMemory(ctx context.Context, uuid string, bytes uint64, affect Affect) error {
	return h.runOnDomain(ctx, changeCall("setting the memory of domain "+uuid), uuid, "virDomainSetMemoryFlags",
		func(d *golibvirt.Domain) error {
			return d.SetMemoryFlags(bytes/1024, golibvirt.DomainMemoryModFlags(affect.impactFlags()))
		})
}
