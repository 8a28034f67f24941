"""xarray: variables of a Dataset are channels, coordinates and attributes stay."""
import numpy
import xarray


def on(model, dataset, channels, out=None):
    """The model's first output for these variables, as a Dataset of the variables `out` (the first channels' names unless
    they are given). The variables' last dimensions are those of space; along others, such as time, the model runs point
    by point. Coordinates are kept, and the attributes of variables that come in and go out."""
    missing = [name for name in channels if name not in dataset]
    if missing:
        raise KeyError(f"the dataset has no variables {missing}: it has {sorted(map(str, dataset.data_vars))}")
    wanted = model.about.input_channels[0]
    if len(channels) != wanted:
        raise ValueError(f"{len(channels)} variables are given as channels: this model takes {wanted}")
    count = model.about.output_channels[0]
    out = list(channels[:count]) if out is None else list(out)
    if len(out) != count:
        raise ValueError(f"{len(out)} names are given in out: this model makes {count} channels")
    first, n = dataset[channels[0]], model.about.dimensions
    space = first.dims[-n:]
    for name in channels:
        if dataset[name].dims[-n:] != space:
            raise ValueError(f"variable '{name}' has dimensions {dataset[name].dims}, but '{channels[0]}' ends with {space}: "
                             "transpose it")
    stacked = xarray.broadcast(*[dataset[name] for name in channels])
    stacked = [x.transpose(*first.dims) for x in stacked]
    others = first.dims[:-n]
    shape = tuple(first.sizes[d] for d in others)
    made = None
    for index in numpy.ndindex(*shape):
        x = numpy.stack([v.values[index] for v in stacked])
        result = model.infer(x)
        result = result[0] if isinstance(result, tuple) else result
        if made is None:
            made = numpy.empty((count, *shape, *result.shape[-n:]), result.dtype)
        made[(slice(None), *index)] = result.reshape(made.shape[:1] + result.shape[-n:])
    kept = made.shape[-n:] == tuple(first.sizes[d] for d in space)
    coordinates = {name: c for name, c in first.coords.items() if kept or not set(c.dims) & set(space)}
    attributes = {name: dataset[name].attrs if name in dataset else {} for name in out}
    return xarray.Dataset({name: (first.dims, made[i], attributes[name]) for i, name in enumerate(out)}, coordinates,
                          dataset.attrs)


