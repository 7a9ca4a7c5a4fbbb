package libvirt

import (
	"context"
	"errors"

	golibvirt "libvirt.org/go/libvirt"
)

// NWFilter reads the definition of a network filter by its name (virNWFilterGetXMLDesc). It returns ErrNotFound if the
// host answered and has no filter of that name.
func (h *Host) NWFilter(ctx context.Context, name string) (document string, err error) {
	return onNWFilter(ctx, h, readCall("reading network filter "+name), name,
		func(c *conn, f *golibvirt.NWFilter) (string, error) {
			c.countCall("virNWFilterGetXMLDesc")
			return f.GetXMLDesc(0)
		})
}

// HasNWFilter reports whether the host has a network filter of that name (virNWFilterLookupByName).
func (h *Host) HasNWFilter(ctx context.Context, name string) (bool, error) {
	_, err := onNWFilter(ctx, h, readCall("looking for network filter "+name), name,
		func(*conn, *golibvirt.NWFilter) (struct{}, error) { return struct{}{}, nil })
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// DefineNWFilter defines a network filter, or redefines the filter with the same UUID and name (virNWFilterDefineXML).
// The change applies at once to the interfaces that use the filter.
func (h *Host) DefineNWFilter(ctx context.Context, document string) error {
	defer h.networkChanges.Add(1)
	_, err := call(ctx, h, changeCall("defining network filter"), func(c *conn) (struct{}, error) {
		c.countCall("virNWFilterDefineXML")
		f, err := c.c.NWFilterDefineXML(document)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, f.Free()
	})
	return err
}

// UndefineNWFilter removes a network filter (virNWFilterUndefine). libvirt refuses that if a running domain or another
// filter uses it.
func (h *Host) UndefineNWFilter(ctx context.Context, name string) error {
	defer h.networkChanges.Add(1)
	_, err := onNWFilter(ctx, h, defineCall("removing network filter "+name), name,
		func(c *conn, f *golibvirt.NWFilter) (struct{}, error) {
			c.countCall("virNWFilterUndefine")
			return struct{}{}, f.Undefine()
		})
	return err
}

// NWFilters reads the definitions of all network filters (virConnectListAllNWFilters). It leaves out filters that
// vanish meanwhile.
func (h *Host) NWFilters(ctx context.Context) (documents []string, err error) {
	return call(ctx, h, readCall("listing network filters"), func(c *conn) (documents []string, err error) {
		c.countCall("virConnectListAllNWFilters")
		filters, err := c.c.ListAllNWFilters(0)
		for i := range filters {
			c.countCall("virNWFilterGetXMLDesc")
			document, readErr := filters[i].GetXMLDesc(0)
			if !errors.Is(readErr, golibvirt.ERR_NO_NWFILTER) {
				documents = append(documents, document)
				err = errors.Join(err, readErr)
			}
			err = errors.Join(err, filters[i].Free())
		}
		return documents, err
	})
}

// onNWFilter runs f on a network filter. It returns ErrNotFound if the host has no filter of that name.
func onNWFilter[T any](
	ctx context.Context, h *Host, s callSpec, name string, f func(*conn, *golibvirt.NWFilter) (T, error),
) (T, error) {
	return call(ctx, h, s, func(c *conn) (value T, err error) {
		c.countCall("virNWFilterLookupByName")
		filter, err := c.c.LookupNWFilterByName(name)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, filter.Free()) }()
		return f(c, filter)
	})
}
