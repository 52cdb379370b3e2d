"""Vectors of files of any size. (Called ``bulk``: a room ``encode`` would replace the function ``isotrope.encode``.)"""
