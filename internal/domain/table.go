package domain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// ParseTable reads the value of an attribute of kind Table: the rows by key.
func ParseTable(value string) map[string]Row {
	all := map[string]Row{}
	for path, text := range ParseTexts(value) {
		key, column := path, ""
		if at := strings.LastIndexByte(path, '.'); at >= 0 { // A key may have dots, as the path of a device.
			key, column = path[:at], path[at+1:]
		}
		if all[key] == nil {
			all[key] = Row{}
		}
		if column != "" {
			all[key][column] = text
		}
	}
	return all
}

// FormatTable is the inverse of ParseTable.
func FormatTable(rows map[string]Row) string {
	texts := map[string]string{}
	for key, row := range rows {
		if len(row) == 0 {
			texts[key+"."] = "" // A row without columns still needs an entry.
		}
		for column, text := range row {
			texts[key+"."+column] = text
		}
	}
	return FormatTexts(texts)
}

// At returns the path of a column below the table, with * for the key.
func (a Attribute) At(column Attribute) string { return a.Name + ".*." + column.Name }

func (a Attribute) normalTable(value string) string {
	all := ParseTable(value)
	for _, row := range all {
		for _, column := range a.Columns {
			if row[column.Name] = column.normal(row[column.Name]); row[column.Name] == "" {
				delete(row, column.Name)
			}
		}
	}
	return FormatTable(all)
}

func (a Attribute) readTable(e *etree.Element) string {
	_, _, keys, found := a.placed(e)
	all := map[string]Row{}
	for i, one := range found {
		if a.Ignore != nil && a.Ignore(one) {
			continue
		}
		row := Row{}
		rows(a.Columns).read(one, Values(row))
		all[cmp.Or(attr(one, keys[0]), strconv.Itoa(i))] = row
	}
	return FormatTable(all)
}

func (a Attribute) putTable(e *etree.Element, path string, all map[string]Row) error {
	return a.putAll(e, sortedKeys(all), func(one *etree.Element, key string) error {
		whole := Values{}
		for _, column := range a.Columns {
			whole[column.Name] = all[key][column.Name]
		}
		return rows(a.Columns).apply(one, join(path, key), whole)
	})
}

// validateTable checks the rows of a table.
func (a Attribute) validateTable(c *checker, path, value string) {
	all := ParseTable(value)
	for _, key := range sortedKeys(all) {
		wrong := a.wrongKey(key)
		c.require(wrong == "", path, wrong)
		for _, column := range a.Columns {
			column.validate(c, join(join(path, key), column.Name), all[key][column.Name],
				func(string, string) bool { return false })
		}
	}
}

// wrongKey says what is wrong with the key of a row, "" if nothing is.
func (a Attribute) wrongKey(key string) string {
	if a.Key != nil {
		return a.Key(key)
	}
	if _, isNumber := number(key); isNumber {
		return ""
	}
	return fmt.Sprintf("The key %q isn't a number.", key)
}
