! A host in Fortran: a decomposition of its own with uneven bounds and ghost cells, arrays that run from north to south, and
! a model in single precision that it calls with double.
program host
  use mpi
  use, intrinsic :: iso_fortran_env, only: real32, real64, int64
  use small_model
  implicit none
  integer, parameter :: width = 14, height = 18, ghosts = 2
  integer :: ierr, rank, ranks, faults, i, j, c, is, ie, js, je
  real(real32), allocatable :: alone(:, :, :)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  faults = 0
  call compute_alone()
  call decompose()
  call check_inference()
  call check_step()
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  if (faults > 0) error stop 1
  if (rank == 0) print '(a)', 'a host in Fortran: all holds'

contains

  real(real64) function value_at(c, j, i)
    integer, intent(in) :: c, j, i
    value_at = real(mod((c - 1) * 37 + (j - 1) * 11 + (i - 1) * 5, 23), real64) / 11 - 1
  end function

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    type(small) :: any
    if (holds) return
    faults = faults + 1
    print '(a, i0, 4a)', 'rank ', rank, ': ', what, ': ', any%error()
  end subroutine

  !> Longitude varies fastest over the ranks, and the northern row of ranks has fewer points.
  subroutine decompose()
    integer :: across
    across = merge(ranks / 2, ranks, mod(ranks, 2) == 0)
    is = 1 + mod(rank, across) * width / across
    ie = (mod(rank, across) + 1) * width / across
    js = 1
    je = height
    if (across == ranks) return
    js = merge(1, 12, rank < across)
    je = merge(11, height, rank < across)
  end subroutine

  subroutine compute_alone()
    real(real32) :: x(width, height, 3)
    type(small) :: model
    allocate (alone(width, height, 2))
    do c = 1, 3
      do j = 1, height
        do i = 1, width
          x(i, j, c) = real(value_at(c, j, i), real32)
        end do
      end do
    end do
    call model%create(extents=[width, height], seed=7, status=ierr)
    call expect(ierr == 0, 'create alone')
    call model%infer(x, alone, ierr)
    call expect(ierr == 0, 'infer alone')
  end subroutine

  subroutine check_inference()
    real(real64) :: state(is - ghosts:ie + ghosts, js - ghosts:je + ghosts, 3), tendency(is - ghosts:ie + ghosts, js - ghosts:je + ghosts, 2)
    type(small) :: model
    state = huge(state)
    tendency = 5
    do c = 1, 3
      do j = js, je
        do i = is, ie
          state(i, je + js - j, c) = value_at(c, j, i)   ! the host's rows run the other way
        end do
      end do
    end do
    call model%create(extents=[width, height], lower=[is, js], upper=[ie, je], comm=MPI_COMM_WORLD, seed=7, status=ierr)
    call expect(ierr == 0, 'create')
    call model%infer(state(is:ie, je:js:-1, :), tendency(is:ie, js:je, :), ierr)
    call expect(ierr == 0, 'infer')
    call expect(all(real(tendency(is:ie, js:je, :), real32) == alone(is:ie, js:je, :)), 'values are those of one process')
    call expect(all(tendency(is - 1, :, :) == 5) .and. all(tendency(:, je + 1, :) == 5), 'ghost cells stay the host''s')
    call model%infer(state(is:ie, js:je, 1:2), tendency(is:ie, js:je, :), ierr)
    call expect(ierr == 1 .and. index(model%error(), 'input 0 has extents (2, ') > 0, 'two channels are refused')
    call expect(model%memory() > 0_int64, 'memory')
  end subroutine

  subroutine check_step()
    real(real32) :: x(is:ie, js:je, 3), y(is:ie, js:je, 2)
    real(real64) :: loss, last
    type(small) :: model
    x = 1
    y = reshape([((real(mod(i, 7), real32), i=1, size(y, 1) * size(y, 2)), j=1, 2)], shape(y))
    call model%create(extents=[width, height], lower=[is, js], upper=[ie, je], comm=MPI_COMM_WORLD, status=ierr)
    call model%set('lr', 0.01_real64, ierr)
    call model%step(x, y, loss, ierr)
    call expect(ierr == 0, 'step')
    do i = 1, 10
      call model%step(x, y, last, ierr)
    end do
    call expect(ierr == 0 .and. last < loss, 'ten steps make the loss smaller')
  end subroutine
end program
