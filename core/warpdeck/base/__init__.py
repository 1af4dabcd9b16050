"""Errors, file locations, and small facilities that every other package may use. It imports no other
package of ours.
"""
