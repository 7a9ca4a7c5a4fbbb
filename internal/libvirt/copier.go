package libvirt

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	golibvirt "libvirt.org/go/libvirt"
)

// A copier is a domain that exists for the time of a copy: libvirt can't write to every storage, but QEMU can. Its
// guest never runs. libvirt ends it when the connection that started it ends, so a run that is killed leaves none; only
// a daemon that is killed leaves one. This package lists it nowhere as a domain: it is no virtual machine of a user.

const (
	// copierPrefix begins the names of copiers.
	copierPrefix = "virtfleet-copy-"
	// copierTitle begins the title of a copier, before the volume that is written.
	copierTitle = "virtfleet copies into volume "
	// copierDisk is the target of the disk that is copied.
	copierDisk = "vda"
	// copyInterval is how often the progress of a copy is asked for.
	copyInterval = 500 * time.Millisecond
)

// copierSpace is the space of the UUIDs of copiers.
var copierSpace = uuid.MustParse("5b0d2f0e-6c62-4c8e-9a39-6f1a4d0c7e21")

// copierName returns the name of the domain that copies into a volume.
func copierName(pool, volume string) string {
	sum := sha256.Sum256([]byte(pool + "/" + volume))
	return copierPrefix + hex.EncodeToString(sum[:6])
}

// copierUUID returns the UUID of the copier of that name.
func copierUUID(name string) string { return uuid.NewSHA1(copierSpace, []byte(name)).String() }

// isCopier reports whether a domain is a copier. The name isn't enough: a user may have given it to a virtual machine.
func isCopier(name, id string) bool {
	return strings.HasPrefix(name, copierPrefix) && id == copierUUID(name)
}

// errCopier says that the only such domain is a copier.
var errCopier = golibvirt.Error{
	Code: golibvirt.ERR_NO_DOMAIN, Message: "the only such domain copies a volume, and is no virtual machine",
}

// DiskCopy is a copy that QEMU makes.
type DiskCopy struct {
	// Pool and Name are the volume that is written. It must be as large as the source.
	Pool, Name string
	// Source and Target are libvirt's <source> of both, within a <disk> of the type SourceType and TargetType. Format is
	// that of the source; the target is raw.
	SourceType, Source, Format string
	TargetType, Target         string
	// Progress is called with the part that is copied, from 0 to 1.
	Progress func(part float64)
}

// CopyDisk copies a disk as a guest sees it to a volume that exists, through QEMU: the source is only read. It returns
// nil once the whole content is in the storage. When it returns, nothing writes to the volume any more if the host
// answers. It has a connection of its own.
//
// It uses virDomainCreateXML, virDomainBlockCopy, virDomainGetBlockJobInfo, virDomainBlockJobAbort and
// virDomainDestroyFlags.
func (h *Host) CopyDisk(ctx context.Context, d DiskCopy) (err error) {
	info, err := h.Info(ctx)
	if err != nil {
		return err
	}
	// Another run has no copier of this volume, because the caller holds its lock: a daemon that was killed has left it.
	if err := h.EndCopier(ctx, d.Pool, d.Name); err != nil {
		return err
	}
	s := callSpec{
		operation: "copying into volume " + d.Pool + "/" + d.Name, timeout: migrateTimeout, patient: true,
		late: ErrUnreachable, writes: true,
	}
	ctx, cancel := h.withDeadline(ctx, s)
	defer cancel()
	c, err := h.reserveBridged(ctx) // A stream of our own can be cut: then libvirt ends the copier.
	if err != nil {
		return h.wrap(connectCall(s.operation), err, true)
	}
	defer c.retire()
	if err := s.checkGuard(ctx); err != nil {
		c.endCall(true)
		return err
	}
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), slowTimeout)
		defer cancel()
		if ctx.Err() != nil && !h.Answers(cleaning) {
			return // It hangs. The copier ends with its connection.
		}
		if ended := h.EndCopier(cleaning, d.Pool, d.Name); ended != nil && err != nil {
			err = errors.Join(err, ended)
		}
	}()
	// The copy ends by itself between two calls, so it is given up only if it doesn't.
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeTimeout, giveUp) })()
	_, lost, err := runOn(patience, c, func(c *conn) (struct{}, error) { return struct{}{}, c.copyDisk(ctx, info, d) })
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", contextCause(ctx), err)
	}
	return h.wrap(s, err, lost)
}

// Copy is a copy that QEMU makes.
type Copy struct {
	// Into is the volume that is written, as "<pool>/<name>".
	Into string
	// XML is the definition of the domain that copies. It names the source, and the target once the copy has begun.
	XML string
}

// DomainsAndCopies is Domains, and returns the copies that QEMU makes at the same moment.
func (h *Host) DomainsAndCopies(ctx context.Context) (domains []Domain, copies []Copy, err error) {
	all, err := call(ctx, h, readingAll("listing domains"), (*conn).readDomains)
	for _, d := range all {
		if !isCopier(d.Name, d.UUID) {
			domains = append(domains, d)
			continue
		}
		copies = append(copies, newCopy(cmp.Or(d.LiveXML, d.PersistentXML)))
	}
	return domains, copies, err
}

// newCopy returns the copy of a domain that copies. If its definition can't be read, its target is "".
func newCopy(document string) Copy {
	var is struct {
		Title string `xml:"title"`
	}
	if xml.Unmarshal([]byte(document), &is) != nil {
		return Copy{XML: document}
	}
	return Copy{Into: strings.TrimPrefix(is.Title, copierTitle), XML: document}
}

// EndCopier ends the domain that copies into a volume. It is no error if there is none.
func (h *Host) EndCopier(ctx context.Context, pool, volume string) error {
	err := h.DestroyDomain(ctx, copierUUID(copierName(pool, volume)), false)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrOperationInvalid) {
		return nil // libvirt says the second about a domain that it has just ended.
	}
	return err
}

func (c *conn) copyDisk(ctx context.Context, info *HostInfo, d DiskCopy) (err error) {
	document, err := d.copier(info)
	if err != nil {
		return err
	}
	c.countCall("virDomainCreateXML")
	dom, err := c.c.DomainCreateXML(document, golibvirt.DOMAIN_START_PAUSED|golibvirt.DOMAIN_START_AUTODESTROY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dom.Free()) }()
	c.countCall("virDomainBlockCopy")
	unlimited := &golibvirt.DomainBlockCopyParameters{}
	if err := dom.BlockCopy(copierDisk, d.target(), unlimited, golibvirt.DOMAIN_BLOCK_COPY_REUSE_EXT); err != nil {
		return err
	}
	if err := c.awaitCopied(ctx, dom, d.Progress); err != nil {
		return err
	}
	// QEMU has flushed everything before it says that it is ready, and the guest writes nothing. Without a pivot, the
	// copy stays as it is.
	c.countCall("virDomainBlockJobAbort")
	return dom.BlockJobAbort(copierDisk, 0)
}

// awaitCopied waits until the target has the whole content.
func (c *conn) awaitCopied(ctx context.Context, dom *golibvirt.Domain, progress func(part float64)) error {
	tick := time.NewTicker(copyInterval)
	defer tick.Stop()
	for {
		c.countCall("virDomainGetBlockJobInfo")
		job, err := dom.GetBlockJobInfo(copierDisk, 0)
		switch {
		case err != nil:
			return err
		case job.Type == golibvirt.DOMAIN_BLOCK_JOB_TYPE_UNKNOWN:
			return errCopyFailed
		case job.End > 0:
			progress(float64(job.Cur) / float64(job.End))
		}
		if job.Cur == job.End {
			ready, err := c.hasCopied(dom)
			if ready || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return contextCause(ctx)
		case <-tick.C:
		}
	}
}

// errCopyFailed says that QEMU gave up a copy. libvirt doesn't tell why.
var errCopyFailed = fmt.Errorf("%w: QEMU gave up the copy: it could not read the source, or not write to the target, "+
	"whose storage may be full", ErrInternal)

// hasCopied reports whether QEMU says that the target is the same as the source.
func (c *conn) hasCopied(dom *golibvirt.Domain) (bool, error) {
	document, err := c.domainXML(dom, 0)
	if err != nil {
		return false, err
	}
	var is struct {
		Disks []struct {
			Mirror struct {
				Ready string `xml:"ready,attr"`
			} `xml:"mirror"`
		} `xml:"devices>disk"`
	}
	if err := xml.Unmarshal([]byte(document), &is); err != nil {
		return false, fmt.Errorf("%w: the domain's definition can't be read: %w", ErrInternal, err)
	}
	return len(is.Disks) == 1 && is.Disks[0].Mirror.Ready == "yes", nil
}

// copier returns the definition of the domain: nothing but the disk, which it can't write to.
func (d DiskCopy) copier(info *HostInfo) (string, error) {
	var domainType string
	for _, g := range info.Guests {
		if g.Arch == info.Arch && len(g.DomainTypes) > 0 {
			domainType = g.DomainTypes[0]
			if slices.Contains(g.DomainTypes, "kvm") {
				domainType = "kvm"
			}
		}
	}
	if domainType == "" {
		return "", fmt.Errorf("%w: the host runs no guests of its own architecture", ErrUnsupported)
	}
	name := copierName(d.Pool, d.Name)
	var title strings.Builder
	if err := xml.EscapeText(&title, []byte(copierTitle+d.Pool+"/"+d.Name)); err != nil {
		return "", err
	}
	return fmt.Sprintf("<domain type='%s'><name>%s</name><uuid>%s</uuid><title>%s</title><memory unit='MiB'>32</memory>"+
		"<vcpu>1</vcpu><os><type>hvm</type></os><devices><disk type='%s' device='disk'><driver name='qemu' type='%s'/>%s"+
		"<target dev='%s' bus='virtio'/><readonly/></disk><controller type='usb' model='none'/>"+
		"<memballoon model='none'/></devices></domain>",
		domainType, name, copierUUID(name), title.String(), d.SourceType, d.Format, d.Source, copierDisk), nil
}

// target returns the disk that is written. Zeros occupy no space.
func (d DiskCopy) target() string {
	return fmt.Sprintf("<disk type='%s' device='disk'><driver name='qemu' type='raw' discard='unmap' "+
		"detect_zeroes='unmap'/>%s</disk>", d.TargetType, d.Target)
}
